//! A real browser without a window, for pages.

use super::files::Scratch;
use super::skip;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

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

    /// The page as it stands once its script has run. Time is the page's own: nothing is waited for.
    pub(crate) fn dom(&self, page: &Path) -> String {
        self.page(&format!("file://{}", page.display()))
    }

    /// The same for any URL; a page with a feed is taken as it is when the feed has ended.
    pub(crate) fn page(&self, address: &str) -> String {
        let scratch = Scratch::new();
        let mut command = Command::new("timeout");
        command.args(["120", self.0]).args(FLAGS).arg("--virtual-time-budget=5000").arg("--dump-dom");
        command.arg(format!("--user-data-dir={}", scratch.path().display()));
        command.arg(address);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let dom = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(dom.contains("</html>"), "{} gave no page: {:?}\n{dom}\n{told}", self.0, output.status);
        dom
    }
}
