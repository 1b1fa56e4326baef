//! Agents that lie, as a controller meets them: exit code, status, matrix, pages and store count
//! alike.

use crate::support::files::Scratch;
use crate::support::fleet::{PING, last_run, testing};
use crate::support::{Done, as_it_is, at_once, netcaliper, peer, serve, skip};
use serde_json::Value;
use std::path::PathBuf;

/// A lie, tests of the run, and measured ones among them; the exit code and what is said of each
/// other test.
type Lie = (&'static str, u64, u64, i32, &'static str);

/// An honest host and one that lies, both pretended, and a real outcome that they report.
struct Fleet {
    scratch: Scratch,
    outcome: PathBuf,
}

impl Fleet {
    fn new() -> Fleet {
        let scratch = Scratch::new();
        let server = serve("");
        let (at, words) = (server.at(), PING.trim_start_matches("ping "));
        let done = as_it_is("ping").args(&at).args(words).arg("-J").run();
        let outcome = scratch.with("outcome.json", &done.exits(0).out);
        Fleet { scratch, outcome }
    }

    fn state(&self, lie: &str) -> PathBuf {
        self.scratch.file(&format!("state-{lie}"))
    }

    fn file(&self, lie: &str, name: &str) -> PathBuf {
        self.scratch.file(&format!("{lie}.{name}"))
    }

    fn run(&self, lie: &str, repeats: u64) -> Done {
        let hosts = self.scratch.with(&format!("hosts-{lie}"), &format!("honest\n{lie}\n"));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/peers/liar.py");
        let line = as_it_is("fleet").arg("run").arg(hosts).arg("--json").arg("--rsh");
        let line = line.arg(format!("python3 {script} {} {{}}", self.outcome.display()));
        let line = line.env("XDG_STATE_HOME", self.state(lie)).arg("--repeats").arg(repeats.to_string());
        let line = line.arg("--html").arg(self.file(lie, "html")).arg("--pages").arg(self.file(lie, "pages"));
        testing(line.arg("--keep").arg("--store").arg(self.file(lie, "store")), "background", PING).run()
    }
}

#[test]
fn what_a_lie_is_counted_as_is_the_same_everywhere() {
    let test = "fleet_lies::what_a_lie_is_counted_as_is_the_same_everywhere";
    if peer::python().is_none() {
        return skip(test, "there is no Python");
    }
    let fleet = Fleet::new();
    let lies: [Lie; 18] = [
        ("honest2", 2, 2, 0, ""),
        ("names", 2, 2, 0, ""),
        ("empty", 2, 1, 4, "bad_result"),
        ("forged", 2, 1, 4, "bad_result"),
        ("list", 2, 1, 4, "bad_result"),
        ("verb", 2, 1, 4, "bad_result"),
        ("noverb", 2, 1, 4, "bad_result"),
        ("protocol", 2, 1, 4, "bad_result"),
        ("kind", 2, 1, 4, "bad_result"),
        ("command", 2, 1, 4, "bad_result"),
        ("damaged", 2, 1, 4, "bad_result"),
        ("failed", 2, 1, 4, "failed"),
        ("partial", 2, 1, 4, "failed"),
        ("nothing", 2, 1, 4, "failed"),
        ("cancelled", 2, 1, 4, "bad_result"),
        ("not_measured_yet", 2, 1, 4, "bad_result"),
        ("unreachable_by_design", 2, 1, 4, "bad_result"),
        ("same", 4, 3, 4, "bad_result"),
    ];
    at_once(&lies, |(lie, tests, measured, code, reason)| {
        let done = fleet.run(lie, tests / 2).exits(code);
        let matrix: Value = serde_json::from_str(&done.out).unwrap();
        let cells = matrix["cells"].as_array().unwrap();
        let runs: usize = cells.iter().map(|cell| cell["runs"].as_array().map_or(0, Vec::len)).sum();
        assert_eq!(runs as u64, measured, "{lie}: {}", done.out);
        let missing: u64 = cells.iter().filter_map(|cell| cell["missing"][reason].as_u64()).sum();
        assert_eq!(missing, tests - measured, "{lie}: {}", done.out);
        let run = last_run(&fleet.state(lie)).unwrap();
        let status = netcaliper("fleet").arg("status").arg(&run).run().exits(0);
        let status = status.prints(&[&format!("  {measured} measured"), "it is over"]);
        if tests > measured {
            let reason = format!("  {} {}", tests - measured, reason.replace('_', " "));
            assert!(status.out.contains(&reason), "{lie}: {}", status.out);
        }
        // Pages and kept runs have the plan's names, one for each measured test.
        let pages = std::fs::read_dir(fleet.file(lie, "pages")).unwrap().count();
        let store = fleet.file(lie, "store");
        let kept = netcaliper("history").arg("--store").arg(&store).arg("--json").run().exits(0);
        let kept: Value = serde_json::from_str(&kept.out).unwrap();
        let kept = kept["runs"].as_array().unwrap().len();
        assert_eq!((pages as u64, kept as u64), (measured, measured), "{lie}");
        let results = std::fs::read_to_string(run.join("results.jsonl")).unwrap();
        assert_eq!(results.contains("\"document\""), reason == "failed", "{lie}");
        for format in ["csv", "jsonl"] {
            let export =
                netcaliper("export").arg("--store").arg(&store).arg("--format").arg(format).run().exits(0);
            for text in [&export.out, &results] {
                assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{lie}: {text}");
            }
        }
    });
}
