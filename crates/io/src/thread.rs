//! The calling thread: its cores, its timers, its weight.

/// The cores that the calling thread may use. Outside Linux they are merely counted, from 0; never
/// empty.
pub fn available() -> Vec<usize> {
    #[cfg(target_os = "linux")]
    if let Ok(cores) = crate::sys::linux::affinity(0)
        && !cores.is_empty()
    {
        return cores;
    }
    (0..std::thread::available_parallelism().map_or(1, usize::from)).collect()
}

/// True if this system lets a thread run on chosen cores only.
pub const CAN_PIN: bool = cfg!(target_os = "linux");

#[cfg(target_os = "linux")]
pub use crate::sys::linux::{current_core, pin, precise_timers};
#[cfg(target_os = "linux")]
pub use crate::sys::space::{hurry, lock_memory, realtime};
#[cfg(not(target_os = "linux"))]
pub use elsewhere::{current_core, hurry, lock_memory, pin, precise_timers, realtime};

/// The functions of `sys` on systems that have nothing like it.
#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use crate::sys::unsupported;
    use std::io;

    pub fn pin(_: &[usize]) -> io::Result<()> {
        Err(unsupported())
    }

    pub fn precise_timers() -> io::Result<()> {
        Err(unsupported())
    }

    pub fn hurry() -> io::Result<()> {
        Err(unsupported())
    }

    pub fn realtime() -> io::Result<()> {
        Err(unsupported())
    }

    pub fn lock_memory() -> io::Result<()> {
        Err(unsupported())
    }

    pub fn current_core() -> Option<usize> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_at_least_one_core_and_they_are_sorted() {
        let cores = available();
        assert!(!cores.is_empty() && cores.is_sorted());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pinned_thread_stays_where_it_was_put() {
        std::thread::spawn(|| {
            for core in available() {
                pin(&[core]).unwrap();
                assert_eq!((available(), current_core()), (vec![core], Some(core)));
                // The thread may use one core only now, but the mask may be widened again.
                pin(&(0..64).collect::<Vec<_>>()).unwrap();
            }
            assert!(pin(&[]).is_err());
            assert!(pin(&[1_000_000]).is_err());
        })
        .join()
        .unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn name_and_timer_slack_are_the_threads_own() {
        let named = std::thread::Builder::new().name("a-name-that-is-too-long".to_owned());
        let slack = named.spawn(|| {
            precise_timers().unwrap();
            let comm = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
            assert_eq!(comm.trim_end(), "a-name-that-is-");
            let tid = std::fs::read_link("/proc/thread-self").unwrap();
            let tid = tid.file_name().unwrap().to_str().unwrap();
            std::fs::read_to_string(format!("/proc/{tid}/timerslack_ns"))
        });
        match slack.unwrap().join().unwrap() {
            Ok(slack) => assert_eq!(slack.trim_end(), "1"),
            Err(e) => crate::testing::skip(&format!("cannot read the timer slack: {e}")),
        }
    }
}
