//! A control group that gives a program less than the host has.

use crate::support::net::is_root;
use crate::support::{Line, Outcome, as_it_is, number, skip};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TEST: &str = "allowance::a_quota_is_a_caveat_and_stands_in_the_host";

/// A group with a fifth of a CPU, of either version; gone when dropped.
struct Group(PathBuf);

impl Group {
    fn new() -> Option<Group> {
        let name = format!("nct-{}", std::process::id());
        let make = |root: &str, files: &[(&str, &str)]| {
            let group = Group(Path::new(root).join(&name));
            fs::create_dir(&group.0).ok()?;
            let set = files.iter().all(|(file, text)| fs::write(group.0.join(file), text).is_ok());
            set.then_some(group)
        };
        let old: &[(&str, &str)] = &[("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "20000")];
        let roots = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];
        let old = roots.iter().find_map(|root| make(root, old));
        old.or_else(|| make("/sys/fs/cgroup", &[("cpu.max", "20000 100000")]))
    }

    /// The same command line, run within it.
    fn within(&self, line: Line) -> Line {
        let inner = line.0;
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""]);
        command.arg(&self.0).arg(inner.get_program()).args(inner.get_args());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Line(command)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_quota_is_a_caveat_and_stands_in_the_host() {
    let Some(group) = is_root().then(Group::new).flatten() else {
        return skip(TEST, "no control group with a CPU quota can be made here");
    };
    let outcome = Outcome::of(group.within(as_it_is("demo").args("-t 300ms --json")).run());
    assert_eq!(outcome.json["begin"]["host"]["allowance"]["cpus"], 0.2, "{}", outcome.tell());
    let points = outcome.json["points"].as_array().unwrap();
    let held = |point: &Value| {
        let caveats = point["caveats"].as_array().unwrap();
        let found = caveats.iter().find(|caveat| caveat["code"] == "own-allowance");
        found.is_some_and(|caveat| caveat["text"].to_string().contains("CPU quota of 0.20 CPUs"))
    };
    assert!(points.iter().any(held), "{}", outcome.tell());
    let counters = &points[0]["local"]["counters"]["moved"];
    assert!(number(&counters["cgroup.nr_throttled"]) > 0, "{counters}");
}
