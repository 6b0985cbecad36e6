//! x
pub mod member;
pub mod network;
pub mod properties;
pub mod protocol;
mod reduce;
pub mod rules;
pub mod state;
pub mod store;
pub mod world;

pub use protocol::Protocol;
pub use rules::Rules;
pub use world::{Forgetting, World};
