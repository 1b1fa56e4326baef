//! `netcaliper lab`: commands on a path with known truth.

use crate::support::files::Scratch;
use crate::support::lab::{served, sh};
use crate::support::net::is_root;
use crate::support::{BIN, Done, Line, Outcome, netcaliper, number, skip};
use jsonschema::Validator;
use serde_json::Value;
use std::sync::OnceLock;

/// `netcaliper lab` with these options; `None` without the privilege.
fn lab(test: &str, options: &str) -> Option<Line> {
    crate::support::lab::lab(&format!("lab::{test}"), options)
}

/// A report as it was written, and as the schema has it.
fn report(path: &std::path::Path) -> Value {
    let report = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    static VALIDATOR: OnceLock<Validator> = OnceLock::new();
    let validator = VALIDATOR.get_or_init(|| {
        let schema = include_str!("../../../../schema/lab.v1.json");
        jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap()
    });
    let errors: Vec<String> =
        validator.iter_errors(&report).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert_eq!(errors, Vec::<String>::new());
    report
}

#[test]
fn the_exit_code_is_the_commands() {
    const NAME: &str = "the_exit_code_is_the_commands";
    let run = |command| lab(NAME, "").map(|lab| sh(lab, command).run());
    let Some(done) = run("exit 7") else { return };
    done.exits(7).complains(&["lab: seed", "lab: up: 0 packets arrived"]);
    run("kill -TERM $$").unwrap().exits(128 + 15);
    run("true").unwrap().exits(0);
    let Some(quiet) = lab(NAME, "-q") else { return };
    assert_eq!(sh(quiet, "true").run().exits(0).err, "");
    netcaliper("lab").args("-q -- no-such-program").run().exits(127).complains(&["no-such-program"]);
    netcaliper("lab").args("-q -- /dev/null").run().exits(126).complains(&["/dev/null", "ermission denied"]);
}

#[test]
fn what_cannot_be_is_a_usage_error() {
    for (options, word) in [
        ("--loss 200%", "--loss: '200%' is not a probability"),
        ("--up delay=1h", "--up: delay"),
        ("--down lag=1s", "--down: 'lag' is not a condition"),
        ("--rate 4", "a rate of at least 8 bit/s"),
    ] {
        netcaliper("lab").args(options).args("-- true").run().exits(2).complains(&[word]);
    }
    netcaliper("lab")
        .args("--report /no/such/folder/file -- true")
        .run()
        .exits(1)
        .complains(&["/no/such/folder"]);
    netcaliper("lab").run().exits(2);
}

#[test]
fn without_privilege_one_sentence_says_so() {
    if !is_root() {
        // Then all the others say it.
        netcaliper("lab").args("-- true").run().exits(125).complains(&["a lab needs"]);
        return;
    }
    const NAME: &str = "lab::without_privilege_one_sentence_says_so";
    if !crate::support::net::succeeds("setpriv", &format!("--reuid 65534 --clear-groups {BIN} --version")) {
        return skip(NAME, "no setpriv, or others may not run this program");
    }
    let mut line = std::process::Command::new("setpriv");
    line.args(["--reuid", "65534", "--clear-groups", BIN, "lab", "--", "true"]);
    // The home directory is still root's.
    line.env("NETCALIPER_CONFIG", "off");
    let done = Line(line).run().exits(125).complains(&["a lab needs the right to make network namespaces"]);
    assert_eq!(done.err.lines().count(), 1, "{}", done.tell());
}

#[test]
fn the_command_finds_both_ends_in_its_environment() {
    let command = "echo $NETCALIPER_LAB_SIDE $NETCALIPER_LAB_CLIENT $NETCALIPER_LAB_SERVER \
                   $NETCALIPER_LAB_CLIENT6 $NETCALIPER_LAB_SERVER6";
    const NAME: &str = "the_command_finds_both_ends_in_its_environment";
    let run = |options| lab(NAME, options).map(|lab| sh(lab, command).run());
    let Some(done) = run("") else { return };
    assert_eq!(done.exits(0).out, "client 10.77.0.1 10.77.0.2 fd77::1 fd77::2\n");
    let done = run("--side server").unwrap();
    assert_eq!(done.exits(0).out, "server 10.77.0.1 10.77.0.2 fd77::1 fd77::2\n");
}

/// Our own measurement on an impaired path: the truth, and what it ended with.
fn measured(test: &str, options: &str, arguments: &str) -> Option<(Value, Done)> {
    let scratch = Scratch::new();
    let file = scratch.file("report.json");
    let command = format!("{BIN} tcp $NETCALIPER_LAB_SERVER {arguments} --json");
    let done = served(lab(test, options)?.arg("--report").arg(&file), &command).run();
    Some((report(&file), done))
}

#[test]
fn tcp_goodput_agrees_with_what_the_path_carried() {
    const NAME: &str = "tcp_goodput_agrees_with_what_the_path_carried";
    let options = "--wait sleep --delay 2ms --loss 0.5% --rate 50M";
    let Some((truth, done)) = measured(NAME, options, "-P 2 --iterations 2 --transfer 1000001") else {
        return;
    };
    let outcome = Outcome::of(done).moved(4, 4_000_004, 0);
    let sent = 4_000_004;
    // Payload of every packet of the data flows is at most what was carried, and what was lost came
    // again.
    let up = &truth["up"]["counts"];
    assert!(number(&up["left_bytes"]) > sent, "{up}");
    assert!(number(&up["lost_random"]) > 0, "{up}");
    // What the sender's kernel repeated is what was lost on the way, and what it only believed to
    // be.
    let repeated = number(&outcome.local()["tcp"]["retransmits"]);
    let lost = number(&up["lost_random"]) + number(&up["dropped_queue"]);
    assert!(repeated + 8 >= lost, "{repeated} repeated, {lost} lost: {}", outcome.tell());
    assert_eq!(truth["up"]["device"], serde_json::json!({ "not_read": 0, "not_received": 0 }));
}

#[test]
fn damage_that_checksums_do_not_show_is_found_by_comparing() {
    const NAME: &str = "damage_that_checksums_do_not_show_is_found_by_comparing";
    let arguments = "-P 2 --iterations 1 --transfer 5000001";
    for seed in 1..=8 {
        let options = format!("--up corrupt=1% --seed {seed}");
        let Some((truth, done)) = measured(NAME, &options, arguments) else { return };
        // Flipped bits arrive with checksums that fit: TCP takes them, and only the comparison
        // tells.
        assert!(number(&truth["up"]["counts"]["corrupted"]) > 0, "{}", done.tell());
        assert_ne!(done.code, Some(0), "{}", done.tell());
        // Now and then it is the conversation that is hit, which ends the run with a sentence: then
        // once more.
        if done.out.is_empty() {
            assert!(done.err.contains("netcaliper: "), "{}", done.tell());
            continue;
        }
        let outcome = Outcome::of(done);
        let errors = number(&outcome.local()["data_errors"]) + number(&outcome.local()["protocol_errors"]);
        if errors > 0 {
            return;
        }
        let outcome = outcome.status("failed");
        assert!(outcome.tell().contains("cannot be understood"), "{}", outcome.tell());
    }
    panic!("the damage was never seen in the data");
}

#[test]
fn the_trace_has_a_row_for_every_packet() {
    const NAME: &str = "the_trace_has_a_row_for_every_packet";
    let scratch = Scratch::new();
    let (file, trace) = (scratch.file("report.json"), scratch.file("trace.csv"));
    let command = format!("{BIN} tcp $NETCALIPER_LAB_SERVER6 -n 300k -P 1");
    let Some(lab) = lab(NAME, "--delay 1ms --duplicate 2% --loss 1% --seed 5") else { return };
    let lab = lab.arg("--report").arg(&file).arg("--trace").arg(&trace);
    served(lab, &command).run().exits(0).complains(&["lab: seed 5"]);
    let (truth, rows) = (report(&file), std::fs::read_to_string(&trace).unwrap());
    let mut lines = rows.lines();
    assert!(lines.next().unwrap().starts_with("direction,index,"));
    for way in ["up", "down"] {
        let counts = &truth[way]["counts"];
        let mine: Vec<Vec<&str>> =
            rows.lines().map(|l| l.split(',').collect()).filter(|r: &Vec<&str>| r[0] == way).collect();
        let class = |name: &str| mine.iter().filter(|r| r[9] == name).count() as u64;
        assert_eq!(class("left"), number(&counts["left"]), "{way}");
        assert_eq!(class("lost-random"), number(&counts["lost_random"]), "{way}");
        let unfinished = mine.iter().filter(|r| r[9] == "unfinished" && r[10] == "0").count() as u64;
        assert_eq!(unfinished, number(&counts["unfinished"]), "{way}");
        let all = number(&counts["arrived"]) + number(&counts["copies"]);
        // Copies that were under way at the end have rows, but were no copies yet.
        assert!(mine.len() as u64 >= all, "{way}");
    }
    assert_eq!(truth["trace_lost"], 0);
}

#[test]
fn the_report_says_what_was_asked_for() {
    const NAME: &str = "the_report_says_what_was_asked_for";
    let scratch = Scratch::new();
    let file = scratch.file("report.json");
    let options = "--delay 20ms --jitter 1ms:pareto=3:reorder --rate 1G --queue 64Ki --overhead 38 --loss 1% \
                   --burst-loss 1%:50% --duplicate 1%:2:1ms --reorder 1%:3 --corrupt 1%:2:wire --outage 1s+1s \
                   --stall 2s+1s/5s --mtu 1400 --path-mtu 1300 --dscp ef --ecn-ce 1% --ecn-above 5ms --only udp:53 \
                   --down reorder=1%:5ms,queue=50p,jitter=1ms --seed 77 --wait spin";
    let Some(lab) = lab(NAME, options) else { return };
    sh(lab.arg("--report").arg(&file), "true").run().exits(0);
    let report = report(&file);
    assert_eq!((&report["schema"], &report["seed"]), (&"netcaliper.lab.v1".into(), &77.into()));
    let (up, down) = (&report["asked_up"], &report["asked_down"]);
    assert_eq!((number(&up["delay_ns"]), number(&down["delay_ns"])), (20_000_000, 20_000_000));
    assert_eq!(up["jitter"]["shape"], serde_json::json!({ "pareto": 3.0 }));
    assert_eq!(
        (&down["jitter"]["shape"], &up["reorder"]["behind"]["packets"]),
        (&"uniform".into(), &3.into())
    );
    assert_eq!(down["bottleneck"]["limit"], serde_json::json!({ "packets": 50 }));
    assert_eq!(up["only"], serde_json::json!({ "protocol": 17, "port": 53 }));
    assert_eq!(report["worker"]["wait"], "spin");
    // The schema describes all that is there.
    let schema: Value = serde_json::from_str(include_str!("../../../../schema/lab.v1.json")).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for (name, value) in [("Path", up), ("Direction", &report["up"]), ("Counts", &report["up"]["counts"])] {
        assert_eq!(keys(&schema["$defs"][name]["properties"]), keys(value), "{name}");
    }
    assert_eq!(keys(&schema["properties"]), keys(&report));
}

#[test]
fn a_server_that_ends_early_is_told_of() {
    let run = |server: &str| {
        let lab = lab("a_server_that_ends_early_is_told_of", "-q")?;
        Some(sh(lab.arg("--server").arg(server), "exit 3").run().exits(3))
    };
    let Some(done) = run("exit 9") else { return };
    done.complains(&["the server has ended before the command began", "9"]);
}

#[test]
fn signals_reach_the_command_and_nothing_is_left() {
    const NAME: &str = "signals_reach_the_command_and_nothing_is_left";
    let command = "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let Some(lab) = lab(NAME, "-q --server-wait 0") else { return };
    let run = sh(lab.arg("--server").arg("sleep 1000"), command).spawn();
    run.hears("ready");
    run.signal("TERM");
    run.hears("caught");
    run.wait().exits(5);
    // The second signal ends what does not listen to the first.
    let command = "trap 'echo no' TERM; echo $$; while :; do sleep 0.05; done";
    let run = sh(netcaliper("lab").args("-q"), command).spawn();
    crate::support::eventually("it runs", || !run.out().is_empty());
    let child = run.out().trim().to_owned();
    run.signal("TERM");
    run.hears("no");
    run.signal("TERM");
    run.wait().exits(128 + 9);
    assert!(!std::path::Path::new("/proc").join(&child).join("cmdline").exists());
    // And no signal of ours is needed when the lab itself is killed.
    let run = sh(netcaliper("lab").args("-q"), "echo $$; exec sleep 1000").spawn();
    crate::support::eventually("it runs", || !run.out().is_empty());
    let child = std::path::Path::new("/proc").join(run.out().trim());
    let alive = || std::fs::read(child.join("cmdline")).is_ok_and(|line| !line.is_empty());
    // It has no command line while the shell makes way for it.
    crate::support::eventually("the command runs", alive);
    run.signal("KILL");
    crate::support::eventually("the command dies with the lab", || !alive());
}

/// The addresses that a foreign program names, in their order.
fn routers(out: &str) -> Vec<String> {
    let words = out.split(|c: char| c.is_whitespace() || "()".contains(c));
    let mut all: Vec<String> = words.filter(|word| word.starts_with("10.77.")).map(str::to_owned).collect();
    all.dedup();
    all
}

#[test]
fn foreign_programs_see_the_hops_in_order() {
    const NAME: &str = "foreign_programs_see_the_hops_in_order";
    let hops = "--hop delay=1ms --hop delay=1ms,ways=4 --hop icmp=1000/s --hop mpls=100 --delay 1ms --seed 4";
    for (program, words) in
        [("traceroute", "-n -q 1 -N 1 -w 5 10.77.0.2"), ("mtr", "-n -r -c 1 -i 1 -u --no-dns 10.77.0.2")]
    {
        if !crate::support::net::installed(program) {
            skip(&format!("lab::{NAME}"), &format!("{program} is not installed"));
            continue;
        }
        let scratch = Scratch::new();
        let file = scratch.file("report.json");
        let Some(lab) = lab(NAME, hops) else { return };
        let done = sh(lab.arg("--report").arg(&file), &format!("{program} {words}")).run().exits(0);
        let seen: Vec<String> =
            routers(&done.out).into_iter().filter(|address| address != "10.77.0.2").collect();
        let places: Vec<&str> = seen.iter().filter_map(|address| address.split('.').nth(2)).collect();
        assert_eq!(places, ["1", "2", "3", "4"], "{}", done.tell());
        let report = report(&file);
        let ways = report["hops"][1]["ways"].as_array().unwrap();
        let sent: u64 = ways.iter().map(|way| number(&way["icmp"]["sent"])).sum();
        assert!(ways.len() == 4 && sent > 0, "{report}");
    }
}

#[test]
fn hops_that_cannot_be_are_usage_errors() {
    for (hop, word) in [
        ("loss=200%", "--hop: hop 1: loss: '200%' is not a probability"),
        ("ways=0", "--hop: hop 1: ways: '0' is not a number from 1 to 16"),
    ] {
        netcaliper("lab").args("--hop").arg(hop).args("-- true").run().exits(2).complains(&[word]);
    }
}
