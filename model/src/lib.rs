//! The protocol of Leasehold as a small model, for a checker that visits every state.
//!
//! # What is modelled
//!
//! One pool with one resource, two or three [members](member), one [store] and a [network]. Time passes in
//! ticks; a TTL is three or four of them, the margin is one. No state holds an instant, only how much has
//! passed or is left on somebody's own clock, so a run has no end but the number of calls that its [World]
//! allows.
//!
//! - **The network** is a set from which nothing has to be taken: whatever was sent may be applied at any later
//!   moment, again, in any order, or never. So a release or a grant can arrive long after its sender gave up.
//! - **A pause** is a member that takes no step while its clock goes on. Nobody is ever obliged to act.
//! - **A crash** leaves a newcomer without history in the same place; what the dead one sent is still on its way.
//! - **Drift**: in any TTL at most one clock gains or loses one tick, which is the margin.
//! - **Listeners** count silence on their own clocks, for beats, for orphans and for the nonce of a freeze.
//!   Anybody listens, with a session or without.
//! - **The store forgets** by going back to any earlier state, once or twice. Usually its live identity tells
//!   ([`Forgetting::Seen`]): then everything is promised. A store that goes back without any sign
//!   ([`Forgetting::Unseen`]) can give away at once what it forgot, and no protocol of ours can prevent that; what
//!   is promised then is that a beat sent after it is not confirmed in vain, and that no verdict ends a session
//!   that was confirmed after it. That is where numbers supplied by the holder, beats raised by grants and the
//!   comparison with what was confirmed earn their place: with an identity that always tells, none of the three
//!   would be missed.
//! - **The store loses one session's record**: what it held is an orphan.
//!
//! # What is promised
//!
//! See [properties]: at no instant two members trust; tokens strictly rise; ended never comes back; a confirmed
//! beat covers the term; a verdict ends nobody who trusts. And, so that this is not true of a model in which
//! nothing happens: takeovers, thaws, reasserted terms that outlive a freeze and orphans that find new holders
//! must each be found somewhere.
//!
//! # What is left out, and why that is safe
//!
//! - **Plans, hints, offers, capacity.** Members may ask, release and close whenever they like, which is more than
//!   any plan does.
//! - **Opening** is one step: a new session holds nothing. (A late repetition of it is modelled where tombstones
//!   are collected.)
//! - **Answers to calls that were given up** are dropped, as a dropped future drops them. The participant
//!   takes the late answer to one heartbeat while the next is on its way. Here a heartbeat and an acquire are on their way
//!   together, and the answer to each moves trust from its own sending, in whichever order they come.
//! - **The token base** after a thaw stands for a number above all that can have been given out. That seconds
//!   since 2020 are such a number is an assumption about one clock, made here and not proved.
//! - **Revocation, REST sessions, foreign keys** are not modelled.
//! - Some of what a member knows is dropped where it cannot matter; `reduce.rs` says why at each place.
//!
//! # What is assumed
//!
//! Two clocks differ by no more than the margin in a TTL; the store applies each call in one step; an id of a
//! session and a nonce are never drawn twice. Break the first and the checker shows the overlap.
//!
//! # The rules
//!
//! [Rules] has one switch for each rule. `tests/breaks.rs` turns each off and gets a shortest trace against a
//! promise. Two are not missed: listeners that count through their own **deafness** end nobody who trusts,
//! because the verdict compares the beat (the rule is there so that the first reader after an outage does not
//! end everybody); and listeners that go on counting in a **new era** do no harm, because whoever survives a
//! thaw has reasserted and so raised its beat, and whoever has not is over. `tests/holds.rs` shows both.

pub mod member;
pub mod memory;
pub mod network;
pub mod properties;
pub mod protocol;
mod reduce;
pub mod rules;
pub mod state;
pub mod step;
pub mod store;
pub mod world;

pub use protocol::Protocol;
pub use rules::Rules;
pub use world::{Forgetting, World};
