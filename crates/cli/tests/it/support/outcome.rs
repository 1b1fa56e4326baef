//! The outcome that `--json` printed, and what every sound run must say.

use super::Done;
use serde_json::Value;

/// A client's run and its outcome.
pub(crate) struct Outcome {
    pub(crate) done: Done,
    pub(crate) json: Value,
}

/// A number that must be there.
#[track_caller]
pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count"))
}

/// A text that must be there.
#[track_caller]
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a text"))
}

/// The classes of errors that totals count.
const ERRORS: [&str; 3] = ["network_errors", "data_errors", "protocol_errors"];

impl Outcome {
    #[track_caller]
    pub(crate) fn of(done: Done) -> Outcome {
        match serde_json::from_str(&done.out) {
            Ok(json) => Outcome { json, done },
            Err(error) => panic!("no outcome on stdout ({error}): {}", done.tell()),
        }
    }

    /// The only phase.
    #[track_caller]
    pub(crate) fn point(&self) -> &Value {
        let points = self.json["points"].as_array().unwrap();
        assert_eq!(points.len(), 1, "one phase was expected");
        &points[0]
    }

    pub(crate) fn local(&self) -> &Value {
        &self.point()["local"]
    }

    pub(crate) fn remote(&self) -> &[Value] {
        self.point()["remote"].as_array().unwrap()
    }

    /// The sum of a count over the servers.
    #[track_caller]
    pub(crate) fn remote_sum(&self, pointer: &str) -> u64 {
        self.remote().iter().map(|f| number(f.pointer(pointer).unwrap())).sum()
    }

    pub(crate) fn connections(&self) -> &[Value] {
        self.point()["connections"].as_array().unwrap()
    }

    pub(crate) fn caveat(&self, code: &str) -> Option<&Value> {
        self.point()["caveats"].as_array().unwrap().iter().find(|d| d["code"] == code)
    }

    /// The caveat with this code, which must have been raised.
    #[track_caller]
    pub(crate) fn caveats(&self, code: &str) -> &str {
        let Some(caveat) = self.caveat(code) else {
            panic!("no caveat '{code}': {}", self.point()["caveats"])
        };
        text(&caveat["text"])
    }

    /// Whether it is said that this machine could not keep to the schedule.
    pub(crate) fn admits_lateness(&self) -> bool {
        let mut caveats =
            self.json["points"].as_array().into_iter().flatten().filter_map(|p| p["caveats"].as_array());
        caveats.any(|all| {
            all.iter().any(|d| ["late", "rate", "missed"].iter().any(|w| text(&d["code"]).contains(w)))
        })
    }

    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Outcome {
        assert_eq!(self.done.code, Some(code), "{}", self.tell());
        self
    }

    #[track_caller]
    pub(crate) fn status(self, status: &str) -> Outcome {
        assert_eq!(self.json["status"], status, "{}", self.tell());
        self
    }

    /// The short of it, for messages.
    pub(crate) fn tell(&self) -> String {
        let Done { name, code, err, .. } = &self.done;
        let mut told =
            format!("{name}\nended with {code:?}: {} ({})\n", self.json["status"], self.json["reason"]);
        for point in self.json["points"].as_array().into_iter().flatten() {
            for totals in
                [&point["local"]].into_iter().chain(point["remote"].as_array().into_iter().flatten())
            {
                told.push_str(&format!(
                    "{}: {} opened {}",
                    totals["who"], totals["traffic"], totals["opened"]
                ));
                told.push_str(&format!(" completed {} stopped {}", totals["completed"], totals["stopped"]));
                told.push_str(&format!(" causes {}\n", totals["causes"]));
            }
        }
        for connection in
            self.json.pointer("/points/0/connections").and_then(Value::as_array).into_iter().flatten()
        {
            if connection["result"] != "completed" {
                told.push_str(&format!("connection {connection}\n"));
            }
        }
        told + "--- stderr\n" + err
    }

    /// All went as planned: exit 0, no error at either end.
    #[track_caller]
    pub(crate) fn good(self) -> Outcome {
        assert_eq!(self.done.code, Some(0), "{}", self.tell());
        assert_eq!(self.json["status"], "complete", "{}", self.tell());
        for point in self.json["points"].as_array().unwrap() {
            for totals in [&point["local"]].into_iter().chain(point["remote"].as_array().unwrap()) {
                for class in ERRORS {
                    assert_eq!(totals[class], 0, "{class}: {}", self.tell());
                }
                assert_eq!(totals["causes"], serde_json::json!([]), "{}", self.tell());
            }
        }
        self
    }

    /// A perfect run of `connections` completed connections that moved exactly `up` and `down`
    /// bytes, by the count of both ends.
    #[track_caller]
    pub(crate) fn moved(self, connections: u64, up: u64, down: u64) -> Outcome {
        let it = self.good();
        let point = it.point();
        let local = |name: &str| number(&point["local"][name]);
        let bytes = |name: &str| number(&point["local"]["traffic"][name]);
        let told = it.tell();
        assert_eq!((bytes("tx_bytes"), bytes("rx_bytes")), (up, down), "local: {told}");
        let remote = (it.remote_sum("/traffic/rx_bytes"), it.remote_sum("/traffic/tx_bytes"));
        assert_eq!(remote, (up, down), "remote: {told}");
        assert_eq!(
            (local("opened"), local("completed"), local("stopped")),
            (connections, connections, 0),
            "{told}"
        );
        for name in ["/opened", "/completed"] {
            assert_eq!(it.remote_sum(name), connections, "remote {name}: {told}");
        }
        it.direction("up", up);
        it.direction("down", down);
        it.records(connections, up, down);
        it
    }

    #[track_caller]
    fn direction(&self, name: &str, bytes: u64) {
        let way = &self.point()[name];
        if bytes == 0 {
            // Push-pull means to send both ways, even when the first turn was all.
            assert!(way.is_null() || way["sent_bytes"] == 0, "{name} is {way}: {}", self.tell());
            return;
        }
        assert_eq!(
            (number(&way["sent_bytes"]), number(&way["received_bytes"])),
            (bytes, bytes),
            "{}",
            self.tell()
        );
        assert_eq!(way["confirmed"], true, "{name}: {}", self.tell());
        assert!(way["goodput_bps"].as_f64().unwrap() > 0.0, "{name}: {way}");
    }

    #[track_caller]
    fn records(&self, connections: u64, up: u64, down: u64) {
        let all = self.connections();
        assert_eq!(all.len() as u64, connections, "records: {}", self.tell());
        let sum = |name: &str| all.iter().map(|c| number(&c[name])).sum::<u64>();
        assert_eq!((sum("tx_bytes"), sum("rx_bytes")), (up, down), "records: {}", self.tell());
        assert!(all.iter().all(|c| c["result"] == "completed" && c["error"].is_null()), "{}", self.tell());
        assert!(all.iter().all(|c| c["connect_ns"].is_u64() && c["local"].is_string()), "{all:?}");
    }

    /// The errors of both ends: local, remote.
    pub(crate) fn errors(&self) -> (u64, u64) {
        let local = ERRORS.iter().map(|class| number(&self.local()[class])).sum();
        let remote = self.remote().iter().flat_map(|f| ERRORS.iter().map(|class| number(&f[class]))).sum();
        (local, remote)
    }

    /// All the words in which either end tells failures: causes with their first example, records.
    pub(crate) fn complaints(&self) -> String {
        let mut all = String::new();
        for totals in [self.local()].into_iter().chain(self.remote()) {
            for cause in totals["causes"].as_array().unwrap() {
                all.push_str(&format!("{} | {}\n", text(&cause["text"]), text(&cause["first"])));
            }
        }
        for connection in self.connections() {
            if let Some(error) = connection["error"].as_str() {
                all.push_str(&format!("{} | {error}\n", text(&connection["result"])));
            }
        }
        all
    }

    /// An error is told in these words, by either end.
    #[track_caller]
    pub(crate) fn tells(&self, words: &str) {
        assert!(self.complaints().contains(words), "'{words}' is told nowhere: {}", self.tell());
    }
}

/// Two printouts are the same, but for the place of notices before the summary: a saved outcome
/// does not know when they were given.
#[track_caller]
pub(crate) fn same_report(again: &str, live: &str) {
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(again), sorted(live), "the same lines");
    let summary = |text: &str| {
        let from =
            ["\nGoodput", "\nConnections established"].iter().filter_map(|title| text.find(title)).min();
        text[from.unwrap_or_else(|| panic!("no summary in {text}"))..].to_owned()
    };
    assert_eq!(summary(again), summary(live), "the same summary");
}
