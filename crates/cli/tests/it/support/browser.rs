//! A real browser without a window, for pages.

use super::files::Scratch;
use super::skip;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

/// What is wrong with the boxes of a page, as its script tells it.
const BOXES: &str = include_str!("boxes.js");

/// Names under which Chromium is installed.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// It looks up, fetches and reports nothing, and begins without a profile.
const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
];

/// A browser that is installed here.
pub(crate) struct Browser(&'static str);

impl Browser {
    /// The browser; without one `test` is skipped.
    pub(crate) fn find(test: &str) -> Option<Browser> {
        let answers = |name: &&&str| {
            let mut asked = Command::new(name);
            asked.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            asked.status().is_ok_and(|status| status.success())
        };
        static FOUND: OnceLock<Option<&&str>> = OnceLock::new();
        let found = FOUND.get_or_init(|| NAMES.iter().find(answers));
        if found.is_none() {
            skip(test, "chromium is not installed");
        }
        found.map(|name| Browser(name))
    }

    pub(crate) fn tab(&self) -> Tab {
        let profile = Scratch::new();
        let mut command = Command::new("sh");
        // Chromium reads from descriptor 3 and answers on 4.
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 >/dev/null </dev/null", self.0]).args(FLAGS);
        command.args(["--hide-scrollbars", "--remote-debugging-pipe"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        let mut browser =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (asked, answers) =
            (browser.stdin.take().unwrap(), BufReader::new(browser.stdout.take().unwrap()));
        let mut tab = Tab { browser, asked, answers, count: 0, session: None, _profile: profile };
        let target = tab.ask("Target.createTarget", json!({ "url": "about:blank" }))["targetId"].clone();
        let session = tab.ask("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        tab.session = session["sessionId"].as_str().map(str::to_owned);
        tab
    }
}

/// A page whose size, medium and colours can be set, and that answers scripts (DevTools protocol
/// over pipes: messages end with a zero byte).
pub(crate) struct Tab {
    browser: Child,
    asked: ChildStdin,
    answers: BufReader<ChildStdout>,
    count: u64,
    session: Option<String>,
    _profile: Scratch,
}

impl Drop for Tab {
    fn drop(&mut self) {
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}

impl Tab {
    fn ask(&mut self, method: &str, params: Value) -> Value {
        let told = self.told(method, params);
        assert!(told["error"].is_null(), "{method}: {told}");
        told["result"].clone()
    }

    fn told(&mut self, method: &str, params: Value) -> Value {
        self.count += 1;
        let mut message = json!({ "id": self.count, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.asked.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut told = Vec::new();
            self.answers.read_until(0, &mut told).unwrap();
            told.pop();
            let told: Value = serde_json::from_slice(&told).expect("the browser answers");
            if told["id"] == self.count {
                return told;
            }
        }
    }

    /// The size, the medium (`screen`, `print`) and the colours (`light`, `dark`).
    pub(crate) fn look(&mut self, (width, height): (u32, u32), medium: &str, colours: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", size);
        let features = json!([{ "name": "prefers-color-scheme", "value": colours }]);
        self.ask("Emulation.setEmulatedMedia", json!({ "media": medium, "features": features }));
    }

    pub(crate) fn open(&mut self, address: &str) {
        self.ask("Page.navigate", json!({ "url": address }));
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'");
    }

    /// What a script says of the page.
    pub(crate) fn says(&mut self, script: &str) -> Value {
        let told = self.evaluated(script);
        assert!(told["error"].is_null() && told["result"]["exceptionDetails"].is_null(), "{script}: {told}");
        told["result"]["result"]["value"].clone()
    }

    fn evaluated(&mut self, script: &str) -> Value {
        let params = json!({ "expression": script, "returnByValue": true, "awaitPromise": true });
        self.told("Runtime.evaluate", params)
    }

    /// Waits until a script says `true`; while a page comes, it may fail.
    #[track_caller]
    pub(crate) fn until(&mut self, script: &str) {
        super::eventually(script, || self.evaluated(script)["result"]["result"]["value"] == true);
    }

    /// Checks the boxes of the page's elements, at the size of a screen and of a phone, and on
    /// paper. The dark scheme differs in colours only.
    #[track_caller]
    pub(crate) fn fits(&mut self, name: &str) {
        for (size, medium) in [((1400, 900), "screen"), ((390, 844), "screen"), ((718, 1000), "print")] {
            self.look(size, medium, "light");
            // Plots are drawn anew for their width.
            self.says(
                "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))",
            );
            let wrong = self.says(BOXES);
            assert_eq!(wrong, json!([]), "{name} at {size:?}, {medium}");
        }
    }
}
