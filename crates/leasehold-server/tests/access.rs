//! Who may come in, and what they may do: real servers on loopback, asked by a real client.

#[path = "access/keys.rs"]
mod keys;
#[path = "access/limits.rs"]
mod limits;
#[path = "access/log_in.rs"]
mod log_in;
#[path = "access/native.rs"]
mod native;
#[path = "access/roles.rs"]
mod roles;
#[path = "access/sessions.rs"]
mod sessions;
#[path = "access/stage.rs"]
mod stage;
#[path = "access/tenants.rs"]
mod tenants;
#[path = "access/tls.rs"]
mod tls;
