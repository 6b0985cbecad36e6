//! What a manager decides about its workers: pure, no I/O and no clock.
//!
//! A *shard* is a place for one worker. Cameras are [spread] over the shards; [what a worker may be working on](told)
//! follows from what it was told and what it said; a camera that takes its worker down is found among its neighbours and put
//! [apart](blame); how long a lease is trusted while the control plane is away is a matter of [policy](grace).

pub mod blame;
pub mod file;
pub mod grace;
pub mod spread;
pub mod told;
