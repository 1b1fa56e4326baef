//! The allowance of this process: CPU quota, memory limit and number of tasks of its control group,
//! of both versions of cgroups.
//!
//! A group has the limits of the groups above it, too: the tightest of all that can be seen is the
//! allowance.

use metrics::real;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use transport::CgroupLimits;

/// Files of a folder, as read.
type Files<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Times and durations for which the limits of the group held this process back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeldBack {
    pub(super) periods: u64,
    pub(super) throttled_us: u64,
    pub(super) memory: u64,
    pub(super) tasks: u64,
}

/// The allowance of this process; `None` without any limit.
pub(super) fn allowance() -> Option<CgroupLimits> {
    let folders = folders();
    let all = folders.iter().map(|folder| limits(&|file| read_to_string(folder.join(file)).ok()));
    all.reduce(tightest).filter(|all| *all != CgroupLimits::default())
}

/// Counters of the groups of this process since these were made; the larger of nested groups.
pub(super) fn held_back() -> HeldBack {
    let read = |folder: &PathBuf| events(&|file| read_to_string(folder.join(file)).ok());
    folders().iter().map(read).fold(HeldBack::default(), |a, b| HeldBack {
        periods: a.periods.max(b.periods),
        throttled_us: a.throttled_us.max(b.throttled_us),
        memory: a.memory.max(b.memory),
        tasks: a.tasks.max(b.tasks),
    })
}

/// The folders of the groups of this process, and of those above, in every hierarchy that is
/// mounted.
fn folders() -> Vec<PathBuf> {
    let read = |file| read_to_string(file).unwrap_or_default();
    folders_of(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"))
}

fn folders_of(groups: &str, mounts: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in groups.lines() {
        // `0::/path` of version 2, `4:cpu,cpuacct:/path` of version 1.
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        let wanted = ["cpu", "memory", "pids"];
        let first = controllers.split(',').find(|name| wanted.contains(name));
        if first.is_none() && !controllers.is_empty() {
            continue;
        }
        for (root, mount) in mounts.lines().filter_map(|line| mounted(line, first)) {
            // A container sees its own group where it is mounted, by whatever name the host has for
            // it.
            let below = Path::new(group).strip_prefix(root).unwrap_or(Path::new(""));
            let own = Path::new(mount).join(below);
            let above = own.ancestors().take_while(|folder| folder.starts_with(mount));
            folders.extend(above.map(Path::to_owned));
        }
    }
    folders
}

/// Root and mount point of a line of mountinfo about the hierarchy with this controller, or of
/// version 2.
fn mounted<'a>(line: &'a str, controller: Option<&str>) -> Option<(&'a str, &'a str)> {
    let (place, what) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, mount) = (place.next()?, place.next()?);
    let mut what = what.split(' ');
    let (kind, options) = (what.next()?, what.nth(1)?);
    let fits = match controller {
        None => kind == "cgroup2",
        Some(name) => kind == "cgroup" && options.split(',').any(|option| option == name),
    };
    fits.then_some((root, mount))
}

fn tightest(a: CgroupLimits, b: CgroupLimits) -> CgroupLimits {
    CgroupLimits {
        cpus: a.cpus.into_iter().chain(b.cpus).reduce(f64::min),
        memory: a.memory.into_iter().chain(b.memory).min(),
        tasks: a.tasks.into_iter().chain(b.tasks).min(),
    }
}

/// The limits of one group, in the files of either version.
fn limits(file: Files<'_>) -> CgroupLimits {
    let number = |name| file(name)?.trim().parse::<u64>().ok();
    let v2 = || {
        let text = file("cpu.max")?;
        let (quota, period) = text.trim().split_once(' ')?;
        cpus(quota.parse().ok()?, period.parse().ok()?)
    };
    // Version 1 writes -1 where there is no quota, and for memory a number of pages near 2^63.
    let v1 = || cpus(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?);
    CgroupLimits {
        cpus: v2().or_else(v1),
        memory: number("memory.max").or_else(|| number("memory.limit_in_bytes")).filter(|n| *n < 1 << 62),
        tasks: number("pids.max"),
    }
}

fn cpus(quota_us: u64, period_us: u64) -> Option<f64> {
    (quota_us > 0 && period_us > 0).then(|| real(quota_us) / real(period_us))
}

/// The counters of one group.
fn events(file: Files<'_>) -> HeldBack {
    let named = |name: &str, key: &str| -> Option<u64> {
        let text = file(name)?;
        let value = |line: &str| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok();
        text.lines().find_map(value)
    };
    let throttled_us = named("cpu.stat", "throttled_usec")
        .or_else(|| Some(named("cpu.stat", "throttled_time")? / 1_000))
        .unwrap_or(0);
    let failures = || file("memory.failcnt")?.trim().parse().ok();
    HeldBack {
        periods: named("cpu.stat", "nr_throttled").unwrap_or(0),
        throttled_us,
        memory: named("memory.events", "max").or_else(failures).unwrap_or(0),
        tasks: named("pids.events", "max").unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cpu.stat` of version 2.
    const STAT: &str = "usage_usec 1723408\nuser_usec 872211\nsystem_usec 851197\nnr_periods 45\nnr_throttled 41\n\
                    throttled_usec 6102311\nnr_bursts 0\nburst_usec 0\n";

    fn files<'a>(of: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| of.iter().find(|(file, _)| *file == name).map(|(_, text)| (*text).to_owned())
    }

    #[test]
    fn limits_and_counters_of_version_2() {
        // As a pod of Kubernetes with a limit of 200m CPU and 256 MiB has them.
        let group = files(&[
            ("cpu.max", "20000 100000\n"),
            ("memory.max", "268435456\n"),
            ("pids.max", "max\n"),
            ("cpu.stat", STAT),
            ("memory.events", "low 0\nhigh 0\nmax 7\noom 0\noom_kill 0\n"),
            ("pids.events", "max 3\n"),
        ]);
        assert_eq!(limits(&group), CgroupLimits { cpus: Some(0.2), memory: Some(256 << 20), tasks: None });
        let found = HeldBack { periods: 41, throttled_us: 6_102_311, memory: 7, tasks: 3 };
        assert_eq!(events(&group), found);
        let none = files(&[("cpu.max", "max 100000\n"), ("memory.max", "max\n"), ("pids.max", "max\n")]);
        assert_eq!(limits(&none), CgroupLimits::default());
    }

    #[test]
    fn limits_and_counters_of_version_1() {
        let group = files(&[
            ("cpu.cfs_quota_us", "150000\n"),
            ("cpu.cfs_period_us", "100000\n"),
            ("cpu.stat", "nr_periods 45\nnr_throttled 41\nthrottled_time 6102311998\n"),
            ("memory.limit_in_bytes", "67108864\n"),
            ("memory.failcnt", "12\n"),
            ("pids.max", "64\n"),
        ]);
        let limited = CgroupLimits { cpus: Some(1.5), memory: Some(64 << 20), tasks: Some(64) };
        assert_eq!(limits(&group), limited);
        let found = HeldBack { periods: 41, throttled_us: 6_102_311, memory: 12, tasks: 0 };
        assert_eq!(events(&group), found);
        let none = files(&[
            ("cpu.cfs_quota_us", "-1\n"),
            ("cpu.cfs_period_us", "100000\n"),
            ("memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        assert_eq!(limits(&none), CgroupLimits::default());
        assert_eq!(
            tightest(limited, CgroupLimits { cpus: Some(0.5), memory: None, tasks: Some(100) }).cpus,
            Some(0.5)
        );
    }

    #[test]
    fn folders_of_both_versions_with_those_above() {
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
                      32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
                      33 31 0:30 /docker/ab /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        let groups =
            "9:name=systemd:/\n4:memory:/docker/ab/x\n2:cpu,cpuacct:/one/two\n3:cpuset:/\n0::/three\n";
        let found: Vec<String> =
            folders_of(groups, mounts).iter().map(|folder| folder.display().to_string()).collect();
        let expected = [
            "/sys/fs/cgroup/memory/x",
            "/sys/fs/cgroup/memory",
            "/sys/fs/cgroup/cpu,cpuacct/one/two",
            "/sys/fs/cgroup/cpu,cpuacct/one",
            "/sys/fs/cgroup/cpu,cpuacct",
            "/sys/fs/cgroup/unified/three",
            "/sys/fs/cgroup/unified",
        ];
        assert_eq!(found.iter().map(|f| f.trim_end_matches('/')).collect::<Vec<_>>(), expected);
        assert!(folders_of("", "").is_empty() && folders_of("x", "y - z").is_empty());
    }
}
