//! The calling thread: its cores, its name, its timers.

use std::io;

/// The cores that the calling thread may use. Outside Linux they are merely counted, from 0; never empty.
pub fn available() -> Vec<usize> {
    #[cfg(target_os = "linux")]
    if let Ok(cores) = crate::sys::linux::affinity()
        && !cores.is_empty()
    {
        return cores;
    }
    (0..std::thread::available_parallelism().map_or(1, usize::from)).collect()
}

/// Whether this system lets a thread run on chosen cores only.
pub const CAN_PIN: bool = cfg!(target_os = "linux");

/// Lets the calling thread, and those it starts from now on, run on these cores only.
///
/// # Errors
/// When none of them may be used, or (`Unsupported`) outside Linux.
pub fn pin(cores: &[usize]) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return crate::sys::linux::set_affinity(cores);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = cores;
        Err(crate::sys::unsupported())
    }
}

/// Names the calling thread for `top` and the like; Linux keeps the first 15 bytes, other systems ignore it.
pub fn name(name: &str) {
    #[cfg(target_os = "linux")]
    // A thread without a name works as well.
    let _ = crate::sys::linux::set_name(name);
    #[cfg(not(target_os = "linux"))]
    let _ = name;
}

/// Makes the calling thread's timers as precise as they get: by default Linux lets them be 50 µs late to save power.
///
/// # Errors
/// `Unsupported` outside Linux.
pub fn precise_timers() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return crate::sys::linux::set_timer_slack(1);
    #[cfg(not(target_os = "linux"))]
    Err(crate::sys::unsupported())
}

/// Gives the calling thread the most weight among ordinary threads (nice -20), so that it is seldom made to wait. Not a
/// real-time policy: the kernel stops those for 50 ms a second when they never sleep.
///
/// # Errors
/// `PermissionDenied` without the privilege (`CAP_SYS_NICE`), `Unsupported` outside Linux.
pub fn hurry() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return crate::sys::space::nice(-20);
    #[cfg(not(target_os = "linux"))]
    Err(crate::sys::unsupported())
}

/// Has the calling thread run before all ordinary ones whenever it is ready (`SCHED_FIFO`). One that never sleeps is stopped
/// by the kernel for 50 ms a second all the same, unless that was switched off (`kernel.sched_rt_runtime_us`).
///
/// # Errors
/// `PermissionDenied` without the privilege (`CAP_SYS_NICE`), `Unsupported` outside Linux.
pub fn realtime() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return crate::sys::space::first_in_first_out(10);
    #[cfg(not(target_os = "linux"))]
    Err(crate::sys::unsupported())
}

/// Keeps all memory of the process, present and future, from being paged out.
///
/// # Errors
/// Without the privilege (`CAP_IPC_LOCK`) or with too low a limit, and (`Unsupported`) outside Linux.
pub fn lock_memory() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return crate::sys::space::lock_memory();
    #[cfg(not(target_os = "linux"))]
    Err(crate::sys::unsupported())
}

/// The core that the calling thread runs on at this moment; `None` outside Linux.
pub fn current_core() -> Option<usize> {
    #[cfg(target_os = "linux")]
    return crate::sys::linux::current_core();
    #[cfg(not(target_os = "linux"))]
    None
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
        let slack = std::thread::spawn(|| {
            name("a-name-that-is-too-long");
            precise_timers().unwrap();
            let comm = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
            assert_eq!(comm.trim_end(), "a-name-that-is-");
            let tid = std::fs::read_link("/proc/thread-self").unwrap();
            let tid = tid.file_name().unwrap().to_str().unwrap();
            std::fs::read_to_string(format!("/proc/{tid}/timerslack_ns"))
        });
        match slack.join().unwrap() {
            Ok(slack) => assert_eq!(slack.trim_end(), "1"),
            Err(e) => crate::testing::skip(&format!("cannot read the timer slack: {e}")),
        }
    }
}
