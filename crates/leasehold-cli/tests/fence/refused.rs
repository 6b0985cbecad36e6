//! What cannot be used is refused with a sentence.

use super::support::{Place, leasehold, ran};

#[test]
fn options_of_a_fence_that_cannot_be_used_are_refused() {
    let mqtt = ["fence", "mqtt", "--store", "http://127.0.0.1:1", "--broker"];
    for (more, said) in [
        (&["http://x"][..], "is no broker"),
        (&["mqtt://u:hush@x"], "a password on the command line"),
        (&["mqtt://x", "--from", "a/b"], "one of its '+'"),
        (&["mqtt://x", "--to", "scenescape/data/scene/{id}/x"], "for ever"),
        (&["mqtt://x", "--names", "3"], "one of its '+'"),
        (&["mqtt://x", "--client-id", "a b"], "--client-id cannot be used"),
        (&["mqtt://x", "--lifetime", "1ms"], "--lifetime is shorter"),
        (&["mqtt://x", "--max-payload", "0"], "--max-payload"),
        (&["mqtts://x#ca=/nowhere"], "/nowhere"),
    ] {
        let ran = ran(leasehold().args(mqtt).args(more));
        assert_eq!((ran.code, ran.err.contains(said)), (Some(2), true), "{more:?}: {}", ran.err);
        assert!(!ran.err.contains("hush"), "{}", ran.err);
    }
    let place = Place::new();
    let http = ["fence", "http", "--store", &place.url()];
    for (more, said) in [
        (&["--listen", "127.0.0.1:0", "--service", "nowhere"][..], "--service is no address"),
        (&["--listen", "127.0.0.1:0", "--service", "ftp://x"], "http://host:port"),
        (&["--listen", "127.0.0.1:0", "--service", "http://u:p@x"], "leave them out"),
        (&["--listen", "0.0.0.0:0", "--service", "http://x"], "TLS"),
        (&["--service", "http://x"], "--listen"),
    ] {
        let ran = ran(leasehold().args(http).args(more));
        assert_eq!((ran.code, ran.err.contains(said)), (Some(2), true), "{more:?}: {}", ran.err);
    }
}
