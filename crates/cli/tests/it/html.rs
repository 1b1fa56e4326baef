//! Reports as pages: what is in them, that nothing in them is foreign, and that they work in a real
//! browser.

use crate::support::browser::{Browser, Tab};
use crate::support::files::Scratch;
use crate::support::{Line, Server, connect, netcaliper, serve, tcp, text};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Everything in the page that could name something outside of it.
fn foreign(page: &str) -> Vec<&str> {
    let inside = |text: &str| text.starts_with('#') || text.starts_with("http://www.w3.org/2000/svg");
    ["src=\"", "href=\"", "url(", "@import", "<link", "<iframe", "<img"]
        .iter()
        .flat_map(|name| page.split(name).skip(1).map(|rest| rest.get(..60).unwrap_or(rest)))
        .filter(|rest| !inside(rest))
        .collect()
}

/// The page of every verb, which the saved run and its outcome give again.
#[track_caller]
fn every_verb_writes_a_page(server: &Server, scratch: &Scratch) {
    let page = |name: &str| scratch.file(&format!("{name}.html"));
    let runs: [(&str, Line, &[&str]); 6] = [
        // Connections that last, so that each one's rate is known.
        (
            "tcp",
            tcp(server.at()).args("-t 700ms -i 100ms -P 3 -b 2M --bidir"),
            &["plot-goodput", "plot-fairness", "plot-rtt", "plot-cpu"],
        ),
        (
            "connect",
            connect(server.at()).args("-t 500ms -i 100ms --rate 200"),
            &["plot-connections-per-second", "plot-connect-times", "plot-connect-percentiles"],
        ),
        (
            "ping",
            netcaliper("ping").arg(server.at()).args("-n 100 -i 100ms"),
            &["plot-latency", "plot-percentiles", "plot-histogram"],
        ),
        (
            "delay",
            netcaliper("delay").arg(server.at()).args("-t 500ms -i 100ms --pps 100 --bidir"),
            &["plot-delay-up", "plot-delay-down", "plot-datagrams-up"],
        ),
        (
            "train",
            netcaliper("train").arg(server.at()).args("-n 10 --repeat 5 --every 50ms --wait 0,20us"),
            &["plot-delay-by-number", "plot-train-rates", "plot-rate-by-spacing"],
        ),
        (
            "stream",
            netcaliper("stream").arg(server.at()).args("--length 1s --depth 100ms -b 1M"),
            &["plot-buffer-depth", "plot-jitter", "plot-frame-flight"],
        ),
    ];
    for (name, line, plots) in runs {
        let saved = scratch.file(&format!("{name}.jsonl"));
        let done = line.arg("--html").arg(page(name)).arg("--save").arg(&saved).run();
        let text = fs::read_to_string(page(name)).unwrap();
        for plot in plots {
            assert!(text.contains(&format!("id=\"{plot}\"")), "{name} has no {plot}: {}", done.tell());
        }
        assert_eq!(foreign(&text), Vec::<&str>::new(), "{name} loads something");
        assert!(text.contains("<pre class=\"command\">"), "{name}");
        let again = netcaliper("report").arg(&saved).arg("--json").arg("--html").arg(page("again")).run();
        assert_eq!(fs::read_to_string(page("again")).unwrap(), text, "{name}: {}", again.tell());
        // Of an outcome, which the store keeps, what a page shows is there, too.
        let outcome = scratch.with(&format!("{name}.json"), &again.out);
        let again = netcaliper("report").arg(&outcome).arg("--html").arg(page("again")).run();
        assert_eq!(fs::read_to_string(page("again")).unwrap(), text, "{name}: {}", again.tell());
    }
}

#[test]
fn a_sweep_and_its_plots_as_files() {
    let scratch = Scratch::new();
    let server = serve("");
    let drawn = scratch.file("deep/er");
    let sweep = tcp(server.at()).args("--sweep buffer=1Ki,64Ki --repeat 2 -n 1M -P 2 --svg").arg(&drawn);
    sweep.arg("--html").arg(scratch.file("sweep.html")).run().exits(0);
    let text = fs::read_to_string(scratch.file("sweep.html")).unwrap();
    assert!(text.contains("id=\"plot-sweep-goodput\"") && text.contains("Goodput against buffer"));
    assert!(text.contains("buffer 64.0 KiB, repetition 2"));
    let mut files: Vec<PathBuf> = fs::read_dir(&drawn).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.iter().any(|path| path.ends_with("sweep-goodput.svg")), "{files:?}");
    assert!(files.len() > 4, "each of four phases has plots of its own: {files:?}");
    for path in &files {
        let svg = fs::read_to_string(path).unwrap();
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{}", path.display());
        assert_eq!(foreign(&svg), Vec::<&str>::new(), "{}", path.display());
    }
}

#[test]
fn what_cannot_be_written_is_said_before_the_run() {
    let done = tcp("127.0.0.1:1").args("--html /nowhere/page.html").run().exits(1).says_one_sentence();
    done.complains(&["cannot write to /nowhere/page.html"]);
    let scratch = Scratch::new();
    let file = scratch.with("a-file", "");
    let done = tcp("127.0.0.1:1").arg("--svg").arg(file).run().exits(1).says_one_sentence();
    done.complains(&["cannot make the folder"]);
    let two = netcaliper("report").args("a.json b.json --html x.html").run().exits(2).says_one_sentence();
    two.complains(&["one run"]);
}

/// A file of this outcome, in which every text that a peer or the network can choose tries to
/// become markup.
pub(crate) fn hostile_run(scratch: &Scratch, outcome: &str) -> PathBuf {
    const EVIL: &str = "</script></pre>\"'><img src=x onerror=\"document.body.dataset.owned=1\"><script>document.body.dataset.owned=2</script>";
    let mut run: Value = serde_json::from_str(outcome).unwrap();
    let evil = || Value::from(EVIL);
    for field in ["version", "verb", "protocol", "placement"] {
        run["begin"][field] = evil();
    }
    run["begin"]["command"] = Value::from(vec![EVIL, EVIL]);
    run["begin"]["targets"] = Value::from(vec![EVIL]);
    run["reason"] = evil();
    run["notices"] = Value::from(vec![EVIL]);
    let point = &mut run["points"][0];
    point["label"] = serde_json::json!({ EVIL: EVIL });
    for field in ["name", "kernel", "cpu", "congestion"] {
        point["sessions"][0]["host"][field] = evil();
    }
    for field in ["target", "version", "placement"] {
        point["sessions"][0][field] = evil();
    }
    point["sessions"][0]["accepted"]["changes"] =
        serde_json::json!([{ "what": EVIL, "asked": EVIL, "given": EVIL, "why": EVIL }]);
    point["local"]["causes"] =
        serde_json::json!([{ "class": "network_error", "text": EVIL, "count": 1, "first": EVIL }]);
    point["remote"][0]["who"] = evil();
    point["remote"][0]["receive"] = evil();
    point["caveats"] = serde_json::json!([{ "level": "note", "code": EVIL, "text": EVIL, "advice": EVIL }]);
    scratch.with("evil.json", &run.to_string())
}

/// The page of such a run, in which no text became markup.
#[track_caller]
fn hostile_page(scratch: &Scratch, run: &Path) -> PathBuf {
    let page = scratch.file("evil.html");
    let line = netcaliper("report").arg(run).arg("--html").arg(&page);
    line.arg("--svg").arg(scratch.file("evil")).run();
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("&lt;img src=x"), "it is there, as text");
    assert_eq!(text.matches("<img").count(), 0);
    assert_eq!(text.matches("<script").count(), 2, "the data and the page's own");
    for entry in fs::read_dir(scratch.file("evil")).unwrap() {
        let svg = fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!svg.contains("<img") && !svg.contains("<script"), "{svg}");
    }
    page
}

/// The same page without its policy and with a script that plays a reader.
fn played(page: &Path, script: &str) -> PathBuf {
    let text = fs::read_to_string(page).unwrap();
    let policy = text.split("<meta http-equiv=\"Content-Security-Policy\"").nth(1).unwrap();
    let policy =
        format!("<meta http-equiv=\"Content-Security-Policy\"{}>", policy.split('>').next().unwrap());
    let text = text.replace(&policy, "").replace("</body>", &format!("<script>{script}</script></body>"));
    let path = page.with_extension("played.html");
    fs::write(&path, text).unwrap();
    path
}

/// A reader can zoom, toggle series and read values.
#[track_caller]
fn can_be_zoomed_and_read(tab: &mut Tab, page: &Path) {
    // What is drawn by the script is what was drawn without it.
    let script = r##"
        const say = (name, value) => (document.body.dataset[name] = String(value));
        const figure = document.querySelector("#plot-goodput"), svg = figure.querySelector("svg.plot");
        const lines = () => [...svg.querySelectorAll(".area .line")].map(l => l.getAttribute("d")).join(" ");
        const axes = () => [...svg.querySelectorAll(".axes text")].map(t => t.textContent).join(" ");
        const before = lines(), texts = axes();
        const press = key => svg.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
        const drawn = () => [...document.querySelectorAll("svg.plot")].flatMap(plot =>
            [...plot.querySelectorAll(".area [d], .area rect, .axes *")].map(e =>
                plot.closest("figure").id + ": " + e.outerHTML.replace(/\s*xmlns="[^"]*"/g, "")));
        const first = drawn();
        document.querySelectorAll("svg.plot").forEach(plot => plot.dispatchEvent(new KeyboardEvent("keydown", { key: "0" })));
        const again = drawn(), gone = first.filter(e => !again.includes(e)), come = again.filter(e => !first.includes(e));
        say("other", gone.slice(0, 3).join(" ") + " | " + come.slice(0, 3).join(" "));
        say("compared", first.length);
        press("0");
        say("same", lines() === before && axes() === texts);
        press("ArrowRight");
        say("read", figure.querySelector(".at").textContent);
        say("value", figure.querySelector(".legend .value").textContent);
        press("+");
        say("zoomed", axes() !== texts && !figure.querySelector(".tools button").hidden);
        press("0");
        say("back", lines() === before);
        const area = svg.querySelector(".area").getBoundingClientRect();
        const point = (type, share) => svg.dispatchEvent(new PointerEvent(type, {
            pointerId: 1, button: 0, bubbles: true,
            clientX: area.left + area.width * share, clientY: area.top + area.height / 2 }));
        svg.setPointerCapture = () => {};
        point("pointerdown", 0.2); point("pointermove", 0.5); point("pointerup", 0.5);
        say("dragged", axes() !== texts);
        svg.dispatchEvent(new MouseEvent("dblclick", { bubbles: true }));
        say("whole", lines() === before);
        const key = figure.querySelector(".legend button");
        key.click();
        say("off", key.getAttribute("aria-pressed") === "false" && lines() !== before);
        key.click();
        say("on", key.getAttribute("aria-pressed") === "true" && lines() === before);
        const details = figure.querySelector("details.table");
        details.addEventListener("toggle", () => say("rows", details.querySelectorAll("tbody tr").length));
        details.open = true;
    "##;
    tab.open(&format!("file://{}", played(page, script).display()));
    tab.until("document.body.dataset.rows !== undefined");
    let told = tab.says("({ ...document.body.dataset })");
    let figures = fs::read_to_string(page).unwrap().matches("<figure").count();
    assert!(figures >= 5, "{figures} plots");
    assert_eq!(told["plots"], figures.to_string(), "every plot is alive");
    assert_eq!(tab.says("document.querySelectorAll('[data-ready=\"1\"]').length"), figures);
    assert_eq!(told["other"], " | ", "what is drawn again looks the same");
    assert!(text(&told["compared"]).parse::<u32>().unwrap() > 50);
    for deed in ["same", "zoomed", "back", "dragged", "whole", "off", "on"] {
        assert_eq!(told[deed], "true", "{deed}");
    }
    let read = text(&told["read"]);
    assert!(read.contains("time since the start") && read.contains("to server"), "{read}");
    assert!(text(&told["value"]).ends_with("bit/s"));
    assert!(text(&told["rows"]).parse::<u32>().unwrap() >= 5);
}

/// A page fits screens, phones and paper, and its verdict and caveats stand where they belong.
#[track_caller]
fn fits(tab: &mut Tab, name: &str, page: &Path) {
    tab.look((1400, 900), "screen", "light");
    tab.open(&format!("file://{}", page.display()));
    let verdict = tab.says("document.querySelector('header .verdict').textContent");
    assert!(text(&verdict).starts_with("Run "), "{name}: {verdict}");
    let folded =
        tab.says("document.querySelector('#caveats details:not([open]) summary')?.textContent ?? ''");
    let levels = ["invalid", "caution", "note"];
    assert!(folded == "" || levels.iter().any(|level| text(&folded).contains(level)), "{name}: {folded}");
    if name == "load" {
        // Its plot spans all stages.
        let names = "[...document.querySelectorAll('#timeline .wide svg > text')].map(e => e.textContent).slice(0, 4).join()";
        assert_eq!(tab.says(names), "idle,down,up,both");
        let panels = "[...document.querySelectorAll('#timeline .wide .panel .what')].map(e => e.textContent.split(',')[0]).join()";
        // Loss has a panel only where something was lost, and a wide delay axis says "(log)".
        let panels = tab.says(panels);
        assert!(text(&panels).starts_with("throughput,delay"), "{panels}");
    }
    tab.says(
        "document.querySelectorAll('details:not(.table)').forEach(d => d.open = !d.closest('#caveats'))",
    );
    tab.fits(name);
}

#[test]
fn pages_are_the_same_of_a_saved_run_and_work_in_a_browser() {
    let (scratch, server) = (Scratch::new(), serve(""));
    every_verb_writes_a_page(&server, &scratch);
    let read = scratch.file("read.html");
    // Several intervals, and connections that end.
    let short = tcp(server.at()).args("-t 700ms -i 100ms -P 3 -b 2M --transfer 20001 --bidir --json");
    let outcome = short.arg("--html").arg(&read).run().exits(0).out;
    let hostile = hostile_page(&scratch, &hostile_run(&scratch, &outcome));

    let Some(browser) = Browser::find("html::pages_are_the_same_of_a_saved_run_and_work_in_a_browser") else {
        return;
    };
    let mut tab = browser.tab();
    tab.look((800, 600), "screen", "light");
    tab.open(&format!("file://{}", hostile.display()));
    let told = tab.says("({ ...document.body.dataset })");
    assert_eq!(told["owned"], Value::Null, "something that a peer said ran");
    assert!(told["plots"].as_str().is_some_and(|n| n != "0"), "the page's own script ran: {told}");
    assert_eq!(tab.says("document.images.length"), 0, "no text became an image");
    can_be_zoomed_and_read(&mut tab, &read);
    for name in ["tcp", "ping", "stream", "train"] {
        fits(&mut tab, name, &scratch.file(&format!("{name}.html")));
    }
    // A load is as fast as its server allows.
    let slow = serve("--max-rate 2M");
    for (name, line) in [
        ("one-way", netcaliper("delay").arg(server.at()).args("-t 500ms -i 100ms --pps 100")),
        ("sweep", netcaliper("delay").arg(server.at()).args("--sweep rate=100k,1M,20M -t 200ms -i 100ms")),
        ("load", netcaliper("load").arg(slow.at()).args("-t 1s --ramp 1s -P 2")),
    ] {
        let page = scratch.file(&format!("{name}.html"));
        let done = line.arg("--html").arg(&page).run();
        assert!(page.exists(), "{name}: {}", done.tell());
        fits(&mut tab, name, &page);
    }
}

#[test]
fn a_page_of_many_phases_stays_small() {
    let scratch = Scratch::new();
    let server = serve("");
    let page = scratch.file("sweep.html");
    let line = tcp(server.at())
        .args("--sweep rate=100k..2100k/100k -t 200ms -i 100ms -P 2 -q")
        .arg("--html")
        .arg(&page);
    line.run().exits(0);
    let page = fs::read_to_string(page).unwrap();
    let data = page.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    assert!(page.matches("<figure").count() > 100, "each phase has its plots");
    let rest = page.len() - data.len();
    assert!(rest < 500_000, "{rest} bytes without the data");
}
