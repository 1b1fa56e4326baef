use super::*;
use crate::inventory::{Format, Inventory};
use crate::plan::{Plan, Request, Shape, Task, Test, Verb};
use crate::result::{Counts, Documents, Ending, PairResult, Reason, document};
use crate::verdict::{Side, Subject, title};
use metrics::schema::Published;
use metrics::{Dist, format_duration};
use model::document::Document as _;
use model::{Caveat, Direction, Outcome, RoundTrips, Way};
use report::escape;
use serde_json::value::RawValue;
use std::sync::LazyLock;

const NOW: Wall = Wall(1_790_000_000_000_000_000);

fn plan(hosts: &str, verb: Verb, repeats: u16) -> Plan {
    let inventory = Inventory::parse(hosts, Format::Lines).unwrap();
    let tests = vec![Test { verb, arguments: vec!["-t".to_owned(), "1s".to_owned()], ..Test::default() }];
    let request =
        Request { run: Uuid::from_u128(1), shape: Shape::Mesh, tests, repeats, seed: 1, unlike: None };
    Plan::make(inventory, request).unwrap()
}

/// An outcome with this round trip, and these rates up and down.
fn outcome(plan: &Plan, task: &Task, rtt_us: u64, goodput: (f64, f64)) -> Outcome {
    let test = plan.test(task).unwrap();
    let text = document(test.verb, &test.ordered(plan.is_reversed(task))).to_string();
    let mut outcome = Outcome::read(text.as_bytes()).unwrap();
    let mut trips = Dist::default();
    // As many as a 99th percentile needs.
    (0..200).for_each(|_| trips.record(rtt_us * 1_000));
    let point = &mut outcome.points[0];
    point.local.pings = Some(Box::new(RoundTrips { rtt_ns: trips.spectrum(), ..RoundTrips::default() }));
    point.up = Some(Direction { goodput_bps: goodput.0, ..Direction::default() });
    point.down = Some(Direction { goodput_bps: goodput.1, ..Direction::default() });
    outcome.begin.run = Uuid::from_u128(1_000 + u128::from(task.id.0));
    outcome
}

fn result(task: &Task, ending: Ending) -> PairResult {
    PairResult { task: task.id, attempts: 1, ended: Wall(NOW.0 - 90_000_000_000), ending }
}

fn raw(outcome: &Outcome) -> Ending {
    let mut text = Vec::new();
    outcome.write(&mut text).unwrap();
    Ending::Measured(RawValue::from_string(String::from_utf8(text).unwrap()).unwrap())
}

fn host(name: &str) -> u32 {
    name.trim_start_matches('h').parse().unwrap()
}

/// Adds a result as it is read.
fn add(builder: &mut MatrixBuilder<'_>, plan: &Plan, mut result: PairResult) -> bool {
    let outcome = Documents::default().read(plan, &mut result);
    builder.add(&result, outcome.as_ref())
}

/// The matrix of these tasks of a plan, each with a round trip of its own, us, and rates up and
/// down.
fn built<'a>(
    plan: &Plan,
    tasks: impl IntoIterator<Item = &'a Task>,
    rtt_us: impl Fn(&Task) -> u64,
    goodput: (f64, f64),
) -> Matrix {
    let mut builder = MatrixBuilder::new(plan);
    for task in tasks {
        add(&mut builder, plan, result(task, raw(&outcome(plan, task, rtt_us(task), goodput))));
    }
    builder.build(NOW)
}

/// Ten hosts, of which what h3 sends takes twice as long. Made once: documents of 270 outcomes are
/// written and read.
fn measured() -> (Plan, Matrix) {
    static MEASURED: LazyLock<(Plan, Matrix)> = LazyLock::new(|| {
        let list: String = (0..10).map(|n| format!("h{n} rack={} site=s{}\n", n % 2, n / 5)).collect();
        let plan = plan(&list, Verb::Ping, 3);
        let rtt_us = |task: &Task| {
            let slow = if task.from.0 == 3 { 2 } else { 1 };
            slow * (1_000 + u64::from(task.id.0 * 7 % 5))
        };
        let matrix = built(&plan, &plan.tasks, rtt_us, (1e9, 5e8));
        (plan, matrix)
    });
    MEASURED.clone()
}

#[test]
fn a_matrix_has_readings_of_each_pair_and_names_the_bad_host() {
    let (_, matrix) = measured();
    assert_eq!((matrix.cells.len(), matrix.counts()), (90, Counts { measured: 270, ..Counts::default() }));
    let cell = matrix.cells.iter().find(|cell| cell.from == "h3" && cell.to == "h7").unwrap();
    assert_eq!((cell.readings["rtt.p50"].len(), cell.readings["goodput"].len()), (3, 3));
    assert!((cell.value("rtt.p50").unwrap() - 2e6).abs() < 2e4, "{:?}", cell.readings);
    assert_eq!(matrix.verdicts.len(), 1, "{:?}", matrix.verdicts);
    let want = Subject::Host { host: "h3".to_owned(), side: Side::Out };
    assert_eq!(matrix.verdicts[0].subject, want);
    assert!(
        matrix.verdicts[0].words().starts_with("messages from h3 take 100 % longer than from the others")
    );
    let json = serde_json::to_vec(&matrix).unwrap();
    let again = Matrix::read(&json).unwrap();
    assert_eq!(serde_json::to_vec(&again).unwrap(), json);
    assert!(Matrix::read(b"{\"schema\": \"netcaliper.outcome.v2\"}").unwrap_err().contains("expected"));
    assert!(Matrix::read(b"{}").is_err() && Matrix::read(b"").is_err());
}

const PUBLISHED: Published = Published {
    file: "fleet.v1.json",
    id: "urn:netcaliper:fleet:v1",
    title: "netcaliper fleet matrix, version 1",
};

#[test]
fn the_schema_is_that_of_the_types() {
    PUBLISHED.check::<Matrix>().unwrap();
}

#[test]
fn the_document_is_what_the_schema_says() {
    let schema = jsonschema::validator_for(&PUBLISHED.read().unwrap()).unwrap();
    let (_, mut matrix) = measured();
    matrix.inventory.limit(&["rack=1:2:crossing".parse().unwrap()]).unwrap();
    matrix.compare(&matrix.clone());
    matrix.cells[0].missing.insert(Reason::Busy, 1);
    matrix.cells[0].detail = "busy".to_owned();
    let caveat =
        CellCaveat { code: "late-timers".to_owned(), level: CaveatLevel::Note, text: "late".to_owned() };
    matrix.cells[0].caveats.push(caveat);
    matrix.changes = matrix.verdicts.clone();
    let pair = Subject::Pair { from: "h0".to_owned(), to: "h1".to_owned() };
    let label = Subject::Label { label: "rack".to_owned(), value: "1".to_owned() };
    for subject in [pair, label] {
        matrix.changes.push(Verdict {
            subject,
            figure: "loss".to_owned(),
            effect: 1.0,
            q: 0.001,
            failures: None,
        });
    }
    let json = serde_json::to_value(&matrix).unwrap();
    let wrong: Vec<String> =
        schema.iter_errors(&json).map(|e| format!("{e} at {}", e.instance_path())).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(Reason::TABLE.iter().enumerate().all(|(at, (reason, ..))| *reason as usize == at));
}

#[test]
fn the_direction_is_that_of_the_pair_wherever_the_client_ran() {
    let plan = plan("h0\nh1 nat=yes\n", Verb::Tcp, 1);
    let matrix = built(&plan, &plan.tasks, |_| 10, (7e8, 3e8));
    // The client runs at h1 in both cases: to it is down, from it up.
    let goodput = |from: &str| matrix.cells.iter().find(|cell| cell.from == from).unwrap().value("goodput");
    assert_eq!((goodput("h0"), goodput("h1")), (Some(3e8), Some(7e8)));
}

#[test]
fn reasons_are_counted_and_an_outcome_replaces_them() {
    let plan = plan("h0\nh1\nh2 nat=1\nh3 nat=1\n", Verb::Ping, 1);
    let mut builder = MatrixBuilder::new(&plan);
    let task = |from: &str, to: &str| {
        *plan.tasks.iter().find(|task| (task.from.0, task.to.0) == (host(from), host(to))).unwrap()
    };
    let bad = RawValue::from_string("{\"points\": 7}".to_owned()).unwrap();
    let mut add = |result| add(&mut builder, &plan, result);
    add(result(&task("h0", "h1"), Ending::missing(Reason::AgentLost, "gone\x1b[2J")));
    add(result(&task("h1", "h0"), Ending::Measured(bad)));
    add(result(&task("h2", "h3"), Ending::missing(Reason::UnreachableByDesign, "")));
    add(result(&task("h3", "h2"), Ending::missing(Reason::UnreachableByDesign, "")));
    add(result(&task("h0", "h2"), Ending::missing(Reason::Refused, "<b>no</b>")));
    let again = task("h1", "h2");
    add(result(&again, Ending::missing(Reason::Failed, "no route")));
    assert!(add(result(&again, raw(&outcome(&plan, &again, 5, (1.0, 1.0))))));
    assert!(!add(result(&again, Ending::missing(Reason::TimedOut, ""))), "a result counts once");
    let stranger =
        PairResult { task: crate::plan::TaskId(99), ..result(&again, Ending::missing(Reason::Busy, "")) };
    add(stranger);
    let matrix = builder.build(NOW);
    let cell = matrix.cells.iter().find(|cell| !cell.runs.is_empty()).unwrap();
    assert!(cell.detail.is_empty(), "an outcome takes the place of what was said about the failure");
    let Counts { measured, missing } = matrix.counts();
    assert_eq!(measured, 1);
    let want = [
        (Reason::UnreachableByDesign, 2),
        (Reason::Refused, 1),
        (Reason::AgentLost, 1),
        (Reason::BadResult, 1),
        (Reason::NotMeasuredYet, 6),
    ];
    assert_eq!(missing, BTreeMap::from(want));
    let page = page_of(&matrix, &|_| None);
    assert!(!page.contains("<b>no</b>") && page.contains("&lt;b&gt;no&lt;/b&gt;"));
    for class in ["design", "refused", "failed", "open"] {
        assert!(page.contains(&format!("<td class=\"{class}")), "{class}");
    }
    let text = text_of(&matrix);
    assert!(
        !text.contains('\x1b') && text.contains("1 refused") && text.contains("2 unreachable by design"),
        "{text}"
    );
}

/// What `write` writes.
fn written(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut bytes = Vec::new();
    write(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn text_of(matrix: &Matrix) -> String {
    written(|out| write_text(matrix, false, Some(100), out))
}

fn page_of(matrix: &Matrix, report: &dyn Fn(usize) -> Option<String>) -> String {
    written(|out| write_html(matrix, report, out))
}

fn metrics_of(matrix: &Matrix) -> String {
    written(|out| write_metrics(matrix, out))
}

#[test]
fn what_became_worse_is_compared_with_the_same_test_before() {
    let (_, mut now) = measured();
    let (_, mut before) = measured();
    before.run = Uuid::from_u128(2);
    for cell in before.cells.iter_mut().filter(|cell| cell.to == "h5") {
        cell.readings.values_mut().flatten().for_each(|value| *value /= 1.5);
    }
    now.compare(&before);
    let subjects: Vec<&Subject> =
        now.changes.iter().filter(|v| v.figure == "rtt.p50").map(|v| &v.subject).collect();
    assert_eq!(subjects, [&Subject::Host { host: "h5".to_owned(), side: Side::In }], "h3 was as slow before");
    assert_eq!(now.before, Some(before.run));
    before.tests[0].length_ns += 1;
    now.compare(&before);
    assert!(!now.changes.is_empty(), "it is the same test, however long it was thought to take");
    before.tests[0].arguments.clear();
    now.compare(&before);
    assert!(now.changes.is_empty(), "another test is not compared");
}

#[test]
fn the_terminal_shows_figures_or_signs_and_verdicts() {
    let (_, matrix) = measured();
    let text = text_of(&matrix);
    let first = "messages from h3 take 100 % longer than from the others (round trip, median)\n";
    assert!(text.starts_with(first), "{text}");
    assert!(text.contains("\n270 of 270 tests of 10 hosts measured.\n"), "{text}");
    assert!(text.contains("goodput 1.00 Gbit/s in all 90 pairs."), "{text}");
    assert!(
        text.lines().any(|line| line.trim_start().starts_with("h3! ")),
        "the named host is marked: {text}"
    );
    let list: String = (0..14).map(|n| format!("h{n}\n")).collect();
    let plan = plan(&list, Verb::Ping, 1);
    let rtt_us = |task: &Task| 100 * (1 + u64::from(task.to.0));
    let text = text_of(&built(&plan, plan.tasks.iter().skip(5), rtt_us, (1.0, 1.0)));
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("h0 ")).collect();
    // Goodput is the same everywhere and has no picture; round trips grow with the number of the
    // host.
    assert!(text.contains("goodput 1 bit/s in all 177 pairs."), "{text}");
    assert!(rows[0].contains('░') && rows[0].contains('█') && rows[0].contains('?'), "{text}");
    assert!(text.contains("5 not measured yet"), "{text}");
}

#[test]
fn hosts_stand_by_label_and_are_gathered_where_there_are_many() {
    let (_, matrix) = measured();
    let view = view::View::of(&matrix);
    let names: Vec<&str> = view.lines.iter().map(|line| line.name.as_str()).collect();
    // By site, then by rack.
    assert_eq!(names, ["h0", "h2", "h4", "h1", "h3", "h6", "h8", "h5", "h7", "h9"]);
    assert_eq!(view.lines.iter().filter(|line| line.first).count(), 1);
    let list: String = (0..200).map(|n| format!("h{n} rack=r{}\n", n / 10)).collect();
    let inventory = Inventory::parse(&list, Format::Lines).unwrap();
    let request = Request {
        run: Uuid::nil(),
        shape: Shape::Regular(4),
        tests: vec![Test::default()],
        repeats: 1,
        seed: 3,
        unlike: None,
    };
    let plan = Plan::make(inventory, request).unwrap();
    let view = view::View::of(&built(&plan, &plan.tasks, |_| 50, (1.0, 1.0)));
    assert_eq!((view.lines.len(), view.gathered, view.too_many), (20, Some("rack"), false));
    assert_eq!(view.lines[2].name, "r2", "r2 before r10");
}

#[test]
fn metrics_have_base_units_and_reasons() {
    let (plan, _) = measured();
    let page = metrics_of(&built(&plan, plan.tasks.iter().skip(1), |_| 1_000, (8e9, 1.0)));
    let first = &plan.tasks[1];
    let named = format!("from=\"h{}\",to=\"h{}\"", first.from.0, first.to.0);
    let line = |name: &str| {
        page.lines().find(|line| line.starts_with(name) && line.contains(&named)).unwrap_or(&page)
    };
    assert!(line("netcaliper_fleet_goodput_bytes_per_second").ends_with(" 1000000000"), "{page}");
    let rtt: f64 =
        line("netcaliper_fleet_round_trip_percentile_seconds").rsplit(' ').next().unwrap().parse().unwrap();
    assert!((rtt - 1e-3).abs() < 1e-5);
    assert!(page.contains("reason=\"not measured yet\""), "{page}");
}

#[test]
fn the_page_is_whole_and_leads_to_each_pair() {
    let (_, mut matrix) = measured();
    let caveat = Caveat {
        code: "late-timers".to_owned(),
        level: CaveatLevel::Caution,
        text: "late".to_owned(),
        advice: String::new(),
    };
    matrix.cells[4].caveats.push(CellCaveat { code: caveat.code, level: caveat.level, text: caveat.text });
    let page = page_of(&matrix, &|at| Some(format!("pages/{at}.html")));
    assert!(!page.contains("<script") && !page.contains("http://") && !page.contains("https://"));
    for at in 0..90 {
        assert!(
            page.contains(&format!("href=\"#p{at}\"")) && page.contains(&format!("<tr id=\"p{at}\">")),
            "{at}"
        );
        assert!(page.contains(&format!("href=\"pages/{at}.html\"")), "{at}");
    }
    // Median and 99th percentile of the round trip; goodput is the same everywhere.
    assert_eq!(page.matches("<figure class=\"matrix\">").count(), 2);
    assert!(page.contains(&format!("{} ago", format_duration(9e10))) && page.contains("late-timers"));
    let cells = (0..=colour::STEPS).map(|step| page.matches(&format!("<td class=\"v{step}\"")).count());
    let first = |step| page.matches(&format!("<td class=\"first v{step}\"")).count();
    let marked = |step| page.matches(&format!("v{step} caution\"")).count();
    let others: usize = (0..=colour::STEPS).map(|step| first(step) + marked(step)).sum();
    assert_eq!(cells.sum::<usize>() + others, 2 * 90);
    assert!(page.contains("<th scope=\"row\" class=\"named\""), "the named host is marked");
    assert!(page.contains(">round trip, median</th>") && page.contains("<h3>round trip, median (ms)</h3>"));
    let head = page.find("<p class=\"verdict").map(|at| &page[at..]).unwrap();
    assert!(head.contains("verdict warning\">messages from h3 take 100 % longer"), "{}", &head[..200]);
    // The pairs of the slow host lead.
    let row = page.find("<tr id=\"p").map(|at| &page[at..]).unwrap();
    assert!(row[..120].contains("h3 → "), "{}", &row[..120]);
}

/// Twelve hosts of which h7 answers nobody, after a ping and a `tcp` of each pair.
fn with_a_dead_host() -> Matrix {
    let list: String = (0..12).map(|n| format!("h{n}\n")).collect();
    let mut plan = plan(&list, Verb::Ping, 1);
    plan.tests.push(Test { verb: Verb::Tcp, ..plan.tests[0].clone() });
    let more: Vec<Task> = (132..)
        .map(crate::plan::TaskId)
        .zip(&plan.tasks)
        .map(|(id, task)| Task { id, test: 1, ..*task })
        .collect();
    plan.tasks.extend(more);
    let mut builder = MatrixBuilder::new(&plan);
    for task in &plan.tasks {
        let ending = match [task.from.0, task.to.0].contains(&7) {
            true => Ending::missing(Reason::Failed, "no route to host"),
            false => raw(&outcome(&plan, task, 100, (1e9, 1e9))),
        };
        add(&mut builder, &plan, result(task, ending));
    }
    builder.build(NOW)
}

#[test]
fn a_dead_host_is_the_first_verdict_in_every_form() {
    let matrix = with_a_dead_host();
    let sentence = "h7 could not be measured: 44 of 44 tests failed (no route to host)";
    assert_eq!(matrix.verdicts.iter().map(Verdict::words).collect::<Vec<_>>(), [sentence]);
    let text = text_of(&matrix);
    assert!(text.starts_with(&format!("{sentence}\n")) && !text.contains("is worse than the rest"), "{text}");
    assert!(text.lines().any(|line| line.trim_start().starts_with("h7! ")), "the head is marked: {text}");
    assert!(text.contains(" in all 110 pairs."), "a figure that is the same stays a sentence: {text}");
    let page = page_of(&matrix, &|_| None);
    assert!(page.contains(&format!("<title>netcaliper fleet: {sentence}</title>")), "{}", &page[..900]);
    assert!(page.contains(&format!("<p class=\"verdict warning\">{sentence}.</p>")));
    assert!(
        page.contains(&format!("<li>{sentence}.</li>")) && page.contains("<th scope=\"row\" class=\"named\"")
    );
    let gauge = "netcaliper_fleet_verdict{kind=\"host\",subject=\"h7\",figure=\"failed\"} 100";
    assert!(metrics_of(&matrix).contains(gauge), "{}", metrics_of(&matrix));
    let json = serde_json::to_value(&matrix).unwrap();
    let schema = jsonschema::validator_for(&PUBLISHED.read().unwrap()).unwrap();
    let wrong: Vec<String> = schema.iter_errors(&json).map(|e| e.to_string()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(json["verdicts"][0]["failures"]["failed"], 44);
    let again = Matrix::read(json.to_string().as_bytes()).unwrap();
    assert_eq!(again.verdicts, matrix.verdicts);
    assert!(!again.has_readings(&matrix.verdicts[0]), "a dead host has not mended");
}

/// A test that a firewall drops, where another one works.
#[test]
fn a_test_that_fails_alone_is_named_with_its_command() {
    let mut matrix = with_a_dead_host();
    for cell in &mut matrix.cells {
        let has_failed = cell.test == 1;
        cell.runs = vec![Uuid::nil(); usize::from(!has_failed)];
        cell.missing = if has_failed { BTreeMap::from([(Reason::TimedOut, 1)]) } else { BTreeMap::new() };
        cell.detail.clear();
    }
    matrix.judge();
    let words: Vec<String> = matrix.verdicts.iter().map(Verdict::words).collect();
    assert_eq!(words, ["Nothing could be measured with tcp -t 1s: 132 of 132 tests failed (timed out)"]);
    assert!(text_of(&matrix).starts_with(&words[0]));
}

/// The figures of a load are those of its answer, not what a stage or part of it has by chance.
#[test]
fn a_load_has_the_figures_of_its_answer() {
    let plan = plan("h0\nh1\n", Verb::Load, 1);
    let task = plan.tasks.iter().find(|task| task.from.0 == 0).unwrap();
    let base = outcome(&plan, task, 0, (0.0, 0.0));
    let trips = |ms: u64| {
        let mut all = Dist::default();
        (0..100).for_each(|_| all.record(ms * 1_000_000));
        Some(Box::new(RoundTrips { rtt_ns: all.spectrum(), ..RoundTrips::default() }))
    };
    let point = |stage: &str, part: &str, ms: u64, (up, down): (f64, f64)| {
        let mut point = base.points[0].clone();
        let label = [("stage", stage), ("part", part)];
        point.label = label.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        point.local.pings = trips(ms);
        point.up = Some(Direction { goodput_bps: up, ..Direction::default() });
        point.down = Some(Direction { goodput_bps: down, ..Direction::default() });
        point
    };
    let mut load = base.clone();
    load.points = vec![
        point("idle", "trips", 10, (0.0, 0.0)),
        point("up", "load", 500, (48e6, 0.0)),
        point("up", "trips", 42, (0.0, 0.0)),
        point("both", "load", 900, (9e6, 9e6)),
        point("both", "trips", 30, (0.0, 0.0)),
    ];
    let mut cell = Cell::default();
    build::note(&mut cell, &load, Way::Up);
    let near = |key: &str, want: f64| {
        let value = cell.value(key).unwrap_or_else(|| panic!("{key}: {:?}", cell.readings));
        assert!((value - want).abs() < want * 0.02, "{key}: {value}");
    };
    near("rtt-grown", 32e6);
    near("rtt.p50", 10e6);
    near("rtt-loaded", 42e6);
    assert!(cell.readings.keys().all(|key| SHOWN.contains(&key.as_str())), "{:?}", cell.readings);
    assert!(!cell.readings.contains_key("rtt.p99") && !cell.readings.contains_key("delay.p50"));
    let grown = figure("rtt-grown").unwrap();
    assert_eq!(
        (grown.show(32.0e6).as_str(), title("rtt-grown").as_str()),
        ("+32.0 ms (B)", "added delay under load")
    );
    // Of a `tcp` the kernel's round trip is no figure of the matrix.
    let tcp = Outcome { begin: model::Begin { verb: "tcp".to_owned(), ..load.begin.clone() }, ..load };
    let mut cell = Cell::default();
    build::note(&mut cell, &tcp, Way::Up);
    assert!(!cell.readings.contains_key("rtt-grown") && cell.readings.contains_key("rtt.p50"));
}

#[test]
fn the_figure_of_the_gravest_verdict_is_the_first_picture() {
    let (_, mut matrix) = measured();
    for cell in &mut matrix.cells {
        let rate = if cell.from == "h5" { 4e8 } else { 1e9 };
        cell.readings.insert("goodput".to_owned(), vec![rate; 3]);
        let slow = cell.readings["rtt.p99"].clone();
        cell.readings.insert("delay.p50".to_owned(), slow);
    }
    matrix.judge();
    let gravest = matrix.verdicts[0].figure.clone();
    let view = view::View::of(&matrix);
    assert_eq!(view.pictures[0].key, gravest);
    let is_named = |key: &str| matrix.verdicts.iter().any(|verdict| verdict.figure == key);
    let named: Vec<bool> = view.pictures.iter().map(|picture| is_named(picture.key)).collect();
    assert!(named.is_sorted_by(|one, next| one >= next), "{named:?}");
}

/// The cell that an outcome's note alone belongs to has no corner.
#[test]
fn a_note_marks_no_cell() {
    let (_, mut matrix) = measured();
    let caveat = |level| CellCaveat { code: "late-timers".to_owned(), level, text: "late".to_owned() };
    for cell in &mut matrix.cells {
        cell.caveats.push(caveat(CaveatLevel::Note));
    }
    let corners = |matrix: &Matrix| page_of(matrix, &|_| None).matches(" caution\" title=").count();
    assert_eq!(corners(&matrix), 0);
    matrix.cells[4].caveats.push(caveat(CaveatLevel::Invalid));
    assert_eq!(corners(&matrix), 2, "one cell of two pictures");
}

/// WCAG 2.2, 1.4.3: 4.5:1, at every value and in both schemes.
#[test]
fn every_cell_can_be_read() {
    use colour::{BLACK, Rgb, SCHEMES, STEPS, WHITE, contrast, ink};
    // Known values: black on white, and #767676, the lightest grey that text on white may have.
    assert!((contrast(BLACK, WHITE) - 21.0).abs() < 1e-9);
    assert!((contrast([0x76; 3], WHITE) - 4.54).abs() < 0.005);
    for (scheme, step) in SCHEMES.iter().flat_map(|scheme| (0..=STEPS).map(move |step| (scheme, step))) {
        let ground = scheme.ground(step);
        assert!(contrast(ground, ink(ground)) >= 4.5, "step {step}: {ground:?}");
    }
    assert_eq!(colour::rules().matches("td.v").count(), 2 * (1 + STEPS as usize));
    assert_eq!([0.0, 0.5, 1.0].map(colour::step), [0, STEPS.div_ceil(2), STEPS]);
    // The cells without a value: ink and ground of their rules, in the palettes of both sheets.
    let styles = [report::REPORT_STYLE, include_str!("fleet.css")].map(|sheet| {
        let blocks = sheet.split(":root {").skip(1).filter_map(|rest| rest.split('}').next());
        let pairs = blocks.map(|block| {
            let pairs = block.split(';').filter_map(|pair| pair.trim().strip_prefix("--")?.split_once(": #"));
            pairs.collect::<BTreeMap<&str, &str>>()
        });
        pairs.collect::<Vec<_>>()
    });
    let rgb = |digits: &str| -> Rgb {
        let each = digits.len() / 3;
        [0, 1, 2].map(|n| u8::from_str_radix(&digits[n * each..(n + 1) * each].repeat(3 - each), 16).unwrap())
    };
    for scheme in 0..2 {
        let colour = |name: &str| {
            let found = styles.iter().find_map(|sheet| sheet[scheme].get(name));
            rgb(found.unwrap_or_else(|| panic!("no colour {name}")))
        };
        let dark_ink = rgb("1c2126");
        let pairs = [
            (colour("ink"), colour("design")),
            (colour("paper"), colour("refused")),
            (dark_ink, colour("busy")),
            (colour("paper"), colour("failed")),
            (colour("soft"), colour("panel")),
            (colour("bad"), colour("paper")),
        ];
        for (at, (front, back)) in pairs.into_iter().enumerate() {
            let found = contrast(front, back);
            assert!(found >= 4.5, "scheme {scheme}, pair {at}: {found:.2}");
        }
    }
}

/// Readings that no verdict covers are listed, and the advice says how a pair is judged.
#[test]
fn slow_single_readings_are_listed() {
    let list: String = (0..6).map(|n| format!("h{n}\n")).collect();
    let plan = plan(&list, Verb::Tcp, 1);
    let mut matrix = built(&plan, &plan.tasks, |_| 10, (9.5e7, 9.5e7));
    assert!(!text_of(&matrix).contains("single readings"));
    let cell = matrix.cells.iter_mut().find(|cell| cell.from == "h4" && cell.to == "h2").unwrap();
    cell.readings.insert("goodput".to_owned(), vec![1.2e6]);
    let text = text_of(&matrix);
    let said =
        "Slowest single readings, not judged: h4 → h2 1.20 Mbit/s (goodput, median of all 95.0 Mbit/s).";
    let said = &said[..said.len() - 1];
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(said) && flat.contains("use --repeats 3"), "{text}");
    assert!(flat.starts_with("No host, direction, pair or label is worse than the rest"), "{text}");
    let page = page_of(&matrix, &|_| None);
    assert!(
        page.contains(&escape(said).into_owned())
            && page.contains("worst: 95.0 Mbit/s to 1.20 Mbit/s, logarithmic scale"),
        "{page}"
    );
}

/// With enough readings a pair is judged, and found good enough.
#[test]
fn single_readings_of_judged_pairs_are_not_called_unjudged() {
    let list: String = (0..6).map(|n| format!("h{n}\n")).collect();
    let plan = plan(&list, Verb::Tcp, 3);
    let mut matrix = built(&plan, &plan.tasks, |_| 10, (9.5e7, 9.5e7));
    let cell = matrix.cells.iter_mut().find(|cell| cell.from == "h4" && cell.to == "h2").unwrap();
    cell.readings.insert("goodput".to_owned(), vec![1.2e6, 9.5e7, 9.5e7]);
    let text = text_of(&matrix);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains("Slowest single readings, of pairs without a verdict: h4 → h2 1.20 Mbit/s"),
        "{text}"
    );
    assert!(!flat.contains("not judged") && !flat.contains("--repeats"), "{text}");
}

/// What an agent, an inventory and a peer say is shown, never obeyed.
#[test]
fn names_cannot_leave_their_cells() {
    let (_, mut matrix) = measured();
    let evil = "\"><script>alert(1)</script>\u{1b}[2J\n";
    matrix.inventory.hosts[0].name = evil.to_owned();
    matrix.inventory.hosts[0].labels.insert("site".to_owned(), evil.to_owned());
    for cell in &mut matrix.cells {
        for name in [&mut cell.from, &mut cell.to] {
            if name == "h0" {
                *name = evil.to_owned();
            }
        }
        cell.detail = evil.to_owned();
    }
    assert!(!page_of(&matrix, &|_| Some(evil.to_owned())).contains("<script"));
    assert!(!text_of(&matrix).contains('\u{1b}'));
    let is_metric = |line: &str| line.starts_with('#') || line.starts_with("netcaliper_fleet_");
    assert!(metrics_of(&matrix).lines().all(is_metric));
}
