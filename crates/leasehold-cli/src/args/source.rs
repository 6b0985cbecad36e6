//! Where resources are found, as options say it.

use clap::Args;
use leasehold::discover::SessionKeys;

/// Which keys are sessions, for `--from redis-sessions`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SessionArgs {
    /// With --from redis-sessions, what the keys of sessions begin with. Where one begins with deleted- and
    /// this, the session is deleted
    #[arg(long, env = "LEASEHOLD_SESSION_PREFIX", default_value = "session:", value_name = "PREFIX")]
    pub(crate) session_prefix: String,
    /// With --from redis-sessions, the field with a session's id
    #[arg(long, env = "LEASEHOLD_SESSION_ID_FIELD", default_value = "id", value_name = "FIELD")]
    pub(crate) session_id_field: String,
    /// With --from redis-sessions, the field that is true while a session rests
    #[arg(long, env = "LEASEHOLD_SESSION_PAUSE_FIELD", default_value = "isPaused", value_name = "FIELD")]
    pub(crate) session_pause_field: String,
}

impl SessionArgs {
    pub(crate) fn keys(&self) -> SessionKeys {
        let mut keys = SessionKeys::default();
        keys.prefix.clone_from(&self.session_prefix);
        keys.id_field.clone_from(&self.session_id_field);
        keys.pause_field.clone_from(&self.session_pause_field);
        keys
    }
}
