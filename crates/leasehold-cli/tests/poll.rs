//! `poll` with real instances on a real Redis: one test for each scenario of the polling documents. The proof is what the polled
//! endpoints themselves saw.

#[path = "poll/answers.rs"]
mod answers;
#[path = "poll/bad_input.rs"]
mod bad_input;
#[path = "poll/campaign.rs"]
mod campaign;
#[path = "poll/edges.rs"]
mod edges;
#[path = "poll/fleet.rs"]
mod fleet;
#[path = "poll/measures.rs"]
mod measures;
#[path = "poll/nodes.rs"]
mod nodes;
#[path = "poll/scale.rs"]
mod scale;
#[path = "poll/stories.rs"]
mod stories;
mod support;
#[path = "poll/trust.rs"]
mod trust;
#[path = "poll/witness.rs"]
mod witness;
