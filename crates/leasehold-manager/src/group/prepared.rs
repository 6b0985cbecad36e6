//! Whether a process is prepared for a signal, or would be ended by it.

use nix::sys::signal::Signal;

/// Whether the process has a handler for `signal`, or keeps it back to fetch it.
pub(super) fn is_prepared_for(pid: u32, signal: Signal) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| prepares(&status, signal))
}

fn prepares(status: &str, signal: Signal) -> bool {
    let has = |field: &str, signal: Signal| {
        let mask = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        mask >> (signal as i32 - 1) & 1 == 1
    };
    // While it starts another process a program keeps everything back for a moment, even what no program keeps back
    // on purpose, and that prepares it for nothing.
    has("SigCgt", signal) || has("SigBlk", signal) && !has("SigBlk", Signal::SIGSEGV)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(blocked: u64, ignored: u64, caught: u64) -> String {
        format!(
            "Name:\tsh\nSigBlk:\t{blocked:016x}\nSigIgn:\t{ignored:016x}\nSigCgt:\t{caught:016x}\nNoNewPrivs:\t0\n"
        )
    }

    #[test]
    fn a_handler_or_a_signal_that_is_kept_back_is_a_preparation() {
        let usr1 = 1 << 9;
        assert!(prepares(&status(0, 0, usr1), Signal::SIGUSR1));
        assert!(prepares(&status(usr1, 0, 0), Signal::SIGUSR1));
        assert!(prepares(&status(!0, 0, usr1), Signal::SIGUSR1));
    }

    #[test]
    fn a_process_that_the_signal_would_end_or_not_reach_is_not_prepared() {
        assert!(!prepares(&status(0, 0, 0), Signal::SIGUSR1));
        assert!(!prepares(&status(0, 0, !(1 << 9)), Signal::SIGUSR1));
        assert!(!prepares(&status(0, !0, 0), Signal::SIGUSR1));
        assert!(!prepares(&status(!0, 0, 0), Signal::SIGUSR1));
        assert!(!prepares("", Signal::SIGUSR1));
        assert!(!prepares("SigCgt:\tnonsense", Signal::SIGUSR1));
    }
}
