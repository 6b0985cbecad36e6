//! What the disk can do at most.

use std::io::{Seek, Write};
use std::time::Duration;

use leasehold::clock;

/// How often a second one page is written and on the disk.
pub(crate) fn syncs(round: Duration) -> f64 {
    let mut file = tempfile::tempfile().expect("a file");
    let (began, mut count) = (clock::now(), 0_u32);
    while clock::now().since(began) < round {
        file.rewind().expect("its beginning");
        file.write_all(&count.to_le_bytes().repeat(1024)).expect("written");
        file.sync_data().expect("on the disk");
        count += 1;
    }
    f64::from(count) / clock::now().since(began).as_secs_f64()
}
