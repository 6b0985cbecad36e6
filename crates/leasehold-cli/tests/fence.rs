//! Fences at work: the real command, a real control plane that is really stopped, a real broker.

mod support;

#[path = "fence/http.rs"]
mod http;
#[path = "fence/mqtt.rs"]
mod mqtt;
#[path = "fence/plane.rs"]
mod plane;
#[path = "fence/refused.rs"]
mod refused;
#[path = "fence/table.rs"]
mod table;
