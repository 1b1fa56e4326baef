//! The agent against controllers that are wrong, late, gone, or several; its processes are
//! pretended.

use super::*;
use crate::plan::{TaskId, Verb};
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What the agent has done to its processes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Did {
    Serve(String, Option<u64>),
    EndServer,
    Start(Attempt, Vec<String>, Option<String>),
    Ask(Attempt),
    Kill(Attempt),
}

#[derive(Clone, Default)]
struct Pretended(Rc<RefCell<Vec<Did>>>);

impl Programs for Pretended {
    fn serve(&mut self, _: Uuid, key: &str, ceilings: &Ceilings) {
        self.0.borrow_mut().push(Did::Serve(key.to_owned(), ceilings.rate));
    }
    fn end_server(&mut self, _: Uuid) {
        self.0.borrow_mut().push(Did::EndServer);
    }
    fn start(&mut self, _: Uuid, attempt: Attempt, words: Vec<String>, key: Option<&str>) {
        self.0.borrow_mut().push(Did::Start(attempt, words, key.map(str::to_owned)));
    }
    fn end(&mut self, _: Uuid, attempt: Attempt, at_once: bool) {
        self.0.borrow_mut().push(if at_once { Did::Kill(attempt) } else { Did::Ask(attempt) });
    }
}

/// A lock that no other agent has.
pub(crate) struct Free;

impl HostLock for Free {
    fn take(&mut self) -> bool {
        true
    }
    fn release(&mut self) {}
}

/// An agent, its processes, and its spool's folder, which goes with it.
struct Rig {
    agent: Agent,
    did: Pretended,
    folder: PathBuf,
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

const RUN: Uuid = Uuid::from_u128(7);
/// Drawn keys of two runs.
const KEY: &str = "netcaliper-psk-1:5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c";
const OTHER: &str = "netcaliper-psk-1:6b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c";
/// How far the controller's clock is ahead of the agent's, ns.
const AHEAD: u64 = 1_000 * SECOND;

fn s(seconds: u64) -> Mono {
    Mono(seconds * SECOND)
}

fn theirs(seconds: u64) -> Mono {
    s(seconds).plus(AHEAD)
}

fn attempt(task: u32) -> Attempt {
    Attempt { task: TaskId(task), number: 1 }
}

fn made(ceilings: Ceilings, folder: PathBuf) -> Rig {
    let did = Pretended::default();
    let agent = Agent::new(
        "host".to_owned(),
        "1.2.3".to_owned(),
        ceilings,
        Spool::open(folder.clone()),
        Box::new(Free),
        Box::new(did.clone()),
        read,
    );
    Rig { agent, did, folder }
}

/// A ping is light, and a `tcp` as its rate.
pub(crate) fn read(verb: Verb, words: &[String]) -> Result<Demand, String> {
    let rate = words.iter().position(|word| word == "--rate").and_then(|at| words.get(at + 1)?.parse().ok());
    let (class, rate_bps) = match (verb, rate) {
        (Verb::Ping, _) => (CostClass::Background, Some(5_120)),
        (_, Some(bps)) if bps <= 10_000_000 => (CostClass::Limited, Some(bps)),
        (_, rate) => (CostClass::Exclusive, rate),
    };
    let cost = model::Cost { rate_bps, length_ns: Some(SECOND), ..model::Cost::default() };
    Ok(Demand { class, cost, connections: 1 })
}

fn within(ceilings: Ceilings) -> Rig {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("nc-agent-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    made(ceilings, std::env::temp_dir().join(name))
}

fn rig() -> Rig {
    within(Ceilings::default())
}

impl Rig {
    fn order(&mut self, now: Mono, message: Order) -> Vec<Report> {
        self.of(RUN, now, message)
    }

    fn of(&mut self, run: Uuid, now: Mono, message: Order) -> Vec<Report> {
        self.agent.on_order(now, &Arc::default(), Of::new(run, message));
        self.reports()
    }

    fn reports(&mut self) -> Vec<Report> {
        self.agent.take_reports().into_iter().map(|(_, of)| of.message).collect()
    }

    /// The order of a key, and the reports that follow, each with the name of the key that hears
    /// it.
    fn by(&mut self, holder: &Arc<Holder>, now: Mono, message: Order) -> Vec<(String, Report)> {
        self.agent.on_order(now, holder, Of::new(RUN, message));
        self.take_reports()
    }

    fn take_reports(&mut self) -> Vec<(String, Report)> {
        self.agent.take_reports().into_iter().map(|(to, of)| (to.name.clone(), of.message)).collect()
    }

    fn hello(&mut self, seconds: u64, epoch: u64) -> Vec<Report> {
        self.order(s(seconds), hello(seconds, epoch, KEY))
    }

    fn did(&self) -> Vec<Did> {
        std::mem::take(&mut *self.did.0.borrow_mut())
    }

    fn end_task(&mut self, now: Mono, task: u32, left: Left) -> Vec<Report> {
        self.agent.on_happened(now, Happened::Over { run: RUN, attempt: attempt(task), left });
        self.reports()
    }
}

fn hello(seconds: u64, epoch: u64, key: &str) -> Order {
    let key = Some(key.to_owned());
    Order::Hello { version: VERSION, epoch, key, now: theirs(seconds), patience_ns: 10 * SECOND }
}

fn run(task: u32, until: u64) -> Order {
    let target = Target { host: "10.0.0.2".to_owned(), port: Some(7411), protocol: None };
    Order::Run {
        attempt: attempt(task),
        class: CostClass::Exclusive,
        until: theirs(until),
        verb: Verb::Ping,
        arguments: vec!["-n".to_owned(), "3".to_owned()],
        target,
    }
}

fn reserve(task: u32, until: u64) -> Order {
    Order::Reserve { attempt: attempt(task), class: CostClass::Exclusive, until: theirs(until), test: None }
}

fn measured() -> Left {
    Left { code: Some(0), out: b"{\n  \"points\": []\n}\n".to_vec(), said: String::new() }
}

#[test]
fn a_test_runs_and_its_result_is_kept_until_the_controller_has_it() {
    let mut rig = rig();
    assert!(
        matches!(rig.order(s(1), run(1, 5))[..], [Report::Hello { version: VERSION, .. }]),
        "an unknown run"
    );
    assert!(matches!(rig.hello(1, 1)[..], [Report::Ready { .. }]));
    assert!(rig.order(s(1), run(1, 5)).is_empty());
    let words: Vec<String> =
        ["ping", "10.0.0.2", "--port", "7411", "-n", "3", "--json"].map(str::to_owned).to_vec();
    assert_eq!(rig.did(), [Did::Start(attempt(1), words, Some(KEY.to_owned()))]);
    assert!(
        rig.order(s(1), run(1, 5)).is_empty() && rig.did().is_empty(),
        "an order that comes twice runs once"
    );
    let [Report::Ended(Kept { ending: Ending::Measured(document), .. })] =
        &rig.end_task(s(2), 1, measured())[..]
    else {
        panic!()
    };
    assert_eq!(document.get(), "{\"points\":[]}");
    // The order comes again: the result does, and nothing runs.
    assert!(matches!(rig.order(s(3), run(1, 9))[..], [Report::Ended(_)]) && rig.did().is_empty());
    // Another agent of the host, after this one was killed.
    let mut after = made(Ceilings::default(), rig.folder.clone());
    assert!(matches!(after.hello(4, 2)[..], [Report::Ready { .. }, Report::Ended(_)]));
    assert!(after.order(s(4), Order::Stored { tasks: vec![TaskId(1)], numbers: vec![1] }).is_empty());
    assert!(!after.folder.exists(), "nothing is left");
    assert!(matches!(after.hello(5, 3)[..], [Report::Ready { .. }]));
}

#[test]
fn a_second_attempt_is_not_answered_with_the_reason_of_the_first() {
    let mut rig = rig();
    let second = Attempt { number: 2, ..attempt(1) };
    let again = |until| match run(1, until) {
        Order::Run { class, until, verb, arguments, target, .. } => {
            Order::Run { attempt: second, class, until, verb, arguments, target }
        }
        other => other,
    };
    rig.hello(0, 1);
    rig.order(s(1), run(1, 5));
    rig.end_task(s(2), 1, Left::default());
    rig.did();
    assert!(rig.order(s(3), again(9)).is_empty());
    assert!(matches!(&rig.did()[..], [Did::Start(started, ..)] if *started == second));
    rig.agent.on_happened(s(4), Happened::Over { run: RUN, attempt: second, left: measured() });
    let is_outcome = |report: &Report| match report {
        Report::Ended(Kept { attempt, ending, .. }) => *attempt == second && ending.reason().is_none(),
        _ => false,
    };
    assert!(matches!(&rig.reports()[..], [report] if is_outcome(report)));
    // The report is lost, and the word that the first attempt's result is stored comes late.
    rig.order(s(5), Order::Stored { tasks: vec![TaskId(1)], numbers: vec![1] });
    assert!(matches!(&rig.hello(6, 1)[..], [Report::Ready { .. }, report] if is_outcome(report)));
    // An outcome answers whichever attempt is ordered, for which nothing runs.
    let reports = rig.order(s(7), run(1, 9));
    let [report, Report::Busy { attempt: refused, .. }] = &reports[..] else { panic!("{reports:?}") };
    assert!(is_outcome(report) && *refused == attempt(1));
    assert!(rig.did().is_empty() && rig.agent.is_idle());
    rig.order(s(8), Order::Stored { tasks: vec![TaskId(1)], numbers: vec![2] });
    assert!(rig.agent.spool.get(RUN, TaskId(1)).is_none());
}

#[test]
fn what_a_process_leaves_is_a_result_or_a_reason() {
    let mut rig = rig();
    rig.hello(0, 1);
    let left =
        |code, out: &str, said: &str| Left { code, out: out.as_bytes().to_vec(), said: said.to_owned() };
    let cases = [
        (left(Some(3), "{}", ""), None),
        (left(Some(1), "{}", "netcaliper: cannot connect"), Some((Reason::Failed, "cannot connect"))),
        (left(Some(4), "{}", ""), Some((Reason::Failed, ""))),
        (left(Some(2), "", "netcaliper: no such option"), Some((Reason::Refused, "no such option"))),
        (left(None, "", ""), Some((Reason::Failed, "the test was killed, or crashed"))),
        (left(Some(0), "{\"a\":", ""), Some((Reason::BadResult, "the test printed no outcome"))),
        (
            left(Some(0), &format!("[{}1]", "1,".repeat(MAX_OUTCOME)), ""),
            Some((Reason::BadResult, "the outcome is longer than a report may be")),
        ),
    ];
    for (task, (left, expected)) in (1..).zip(cases) {
        rig.order(s(1), run(task, 5));
        let printed = !left.out.is_empty();
        let reports = rig.end_task(s(2), task, left);
        let [Report::Ended(Kept { ending, .. })] = &reports[..] else { panic!("{reports:?}") };
        let found = match ending {
            Ending::Measured(_) => None,
            Ending::Missing { reason, detail, document } => {
                let is_kept = document.as_ref().is_some_and(|document| document.get() == "{}");
                assert_eq!(is_kept, *reason == Reason::Failed && printed, "{detail}");
                Some((*reason, detail.as_str()))
            }
        };
        assert_eq!(found, expected);
    }
}

#[test]
fn a_test_ends_in_its_time_come_what_may() {
    let mut rig = rig();
    rig.hello(0, 1);
    rig.order(s(1), run(1, 5));
    rig.did();
    let due = rig.agent.wake(s(1)).unwrap();
    assert!(due < s(5) && due > s(4), "{due:?}");
    rig.agent.tick(due);
    assert_eq!(rig.did(), [Did::Ask(attempt(1))]);
    rig.agent.tick(s(5));
    rig.agent.tick(s(6));
    assert_eq!(rig.did(), [Did::Kill(attempt(1))]);
    let reports = rig.end_task(s(6), 1, measured());
    assert!(matches!(
        &reports[..],
        [Report::Ended(Kept { ending: Ending::Missing { reason: Reason::TimedOut, .. }, .. })]
    ));
}

#[test]
fn one_test_at_a_time_whoever_asks() {
    let mut rig = rig();
    rig.hello(0, 1);
    let other = Uuid::from_u128(8);
    rig.of(other, s(0), hello(0, 1, OTHER));
    rig.order(s(1), run(1, 5));
    let busy = |reports: Vec<Report>| match &reports[..] {
        [Report::Busy { for_ns, .. }] => *for_ns,
        _ => panic!("{reports:?}"),
    };
    assert_eq!(busy(rig.of(other, s(2), run(1, 9))), 3 * SECOND);
    assert_eq!(busy(rig.of(other, s(2), reserve(2, 9))), 3 * SECOND);
    assert_eq!(busy(rig.order(s(2), reserve(2, 9))), 3 * SECOND);
    // Past its end the process is still there: it counts.
    assert_eq!(busy(rig.of(other, s(5), run(1, 9))), SECOND / 1000);
    rig.end_task(s(6), 1, measured());
    rig.did();
    assert!(rig.of(other, s(6), reserve(2, 9)).is_empty());
    assert_eq!(rig.did(), [Did::Serve(OTHER.to_owned(), None)], "each run has its own key");
    assert_eq!(busy(rig.order(s(7), run(3, 9))), 2 * SECOND);
    rig.of(other, s(7), Order::Release { attempt: attempt(2) });
    assert!(rig.order(s(7), run(3, 9)).is_empty());
}

#[test]
fn a_reservation_waits_for_the_server_and_ends_by_itself() {
    let mut rig = rig();
    rig.hello(0, 1);
    assert!(rig.order(s(1), reserve(1, 4)).is_empty());
    assert!(rig.order(s(1), reserve(1, 4)).is_empty(), "an order that comes twice");
    assert_eq!(rig.did(), [Did::Serve(KEY.to_owned(), None)]);
    let serving = |port| Happened::Serving { run: RUN, port };
    rig.agent.on_happened(s(2), serving(Ok(7000)));
    assert!(matches!(rig.reports()[..], [Report::Reserved { port: 7000, .. }]));
    assert!(matches!(rig.order(s(2), reserve(1, 4))[..], [Report::Reserved { port: 7000, .. }]));
    assert!(matches!(rig.order(s(3), reserve(2, 9))[..], [Report::Busy { .. }]));
    assert_eq!(rig.agent.wake(s(3)), Some(s(4)));
    rig.agent.tick(s(4));
    assert!(matches!(rig.order(s(4), reserve(2, 9))[..], [Report::Reserved { port: 7000, .. }]));
    // The server ends: the next reservation starts another, which cannot.
    rig.agent.on_happened(s(5), serving(Err("it ended".to_owned())));
    rig.order(s(5), Order::Release { attempt: attempt(2) });
    rig.did();
    rig.order(s(5), reserve(3, 9));
    assert_eq!(rig.did().len(), 1);
    rig.agent.on_happened(s(5), serving(Err("the address is in use".to_owned())));
    assert!(
        matches!(&rig.reports()[..], [Report::Refused { reason: Reason::Failed, why, .. }] if why.contains("in use"))
    );
    assert!(rig.agent.is_idle());
}

#[test]
fn a_reservation_lasts_as_long_as_the_controller_that_took_over_wants() {
    let mut rig = rig();
    let held = |reports: &[Report]| match reports {
        [Report::Ready { held_ns, .. }] => *held_ns,
        _ => panic!("{reports:?}"),
    };
    assert_eq!(held(&rig.hello(0, 1)), Some(0));
    rig.order(s(1), reserve(1, 4));
    assert_eq!(held(&rig.hello(2, 2)), Some(2 * SECOND), "the test that the controller before has started");
    rig.order(s(2), reserve(1, 9));
    rig.order(s(2), reserve(1, 6));
    assert_eq!(rig.agent.wake(s(2)), Some(s(9)));
    assert!(matches!(rig.order(s(5), reserve(2, 12))[..], [Report::Busy { .. }]));
    // For longer than the longest test not even then.
    rig.order(s(5), reserve(1, 100_000));
    assert!(rig.agent.admission.held[0].until < s(1_000));
}

#[test]
fn how_long_the_tests_of_another_agent_go_on_is_left_open() {
    /// The lock of a host whose other agent has tests.
    struct Taken;
    impl HostLock for Taken {
        fn take(&mut self) -> bool {
            false
        }
        fn release(&mut self) {}
    }
    let mut rig = rig();
    rig.agent.admission = Admission::new(1.0, None, Box::new(Taken));
    let reports = rig.hello(0, 1);
    assert!(matches!(&reports[..], [Report::Ready { held_ns: None, .. }]), "{reports:?}");
}

#[test]
fn a_test_that_the_share_of_the_time_never_has_room_for_is_refused() {
    // Six seconds of ten minutes.
    let mut rig = within(Ceilings { share: 0.01, ..Ceilings::default() });
    rig.hello(0, 1);
    let refused = |reports: &[Report]| match reports {
        [Report::Refused { reason: Reason::Refused, why, .. }] => why.contains("share"),
        _ => false,
    };
    assert!(refused(&rig.order(s(1), run(1, 8))) && refused(&rig.order(s(1), reserve(2, 8))));
    assert!(rig.agent.is_idle());
    assert!(rig.order(s(1), run(3, 6)).is_empty() && !rig.agent.is_idle());
}

#[test]
fn an_order_that_was_held_up_is_not_carried_out() {
    let mut rig = rig();
    rig.hello(0, 1);
    // The smallest difference of the clocks is the one that counts.
    rig.order(s(10), Order::Alive { now: theirs(4) });
    assert!(matches!(rig.order(s(10), run(1, 9))[..], [Report::Busy { for_ns: 0, .. }]));
    assert!(rig.did().is_empty());
    // A greeting that waited six seconds, and is put right by the next word.
    let mut late = self::rig();
    late.order(s(10), hello(4, 1, KEY));
    late.order(s(10), Order::Alive { now: theirs(10) });
    assert!(matches!(late.order(s(10), run(1, 9))[..], [Report::Busy { for_ns: 0, .. }]));
    // A reservation that would keep everybody out for hours.
    assert!(matches!(
        late.order(s(10), reserve(2, 100_000))[..],
        [Report::Refused { reason: Reason::Refused, .. }]
    ));
}

#[test]
fn the_difference_of_the_clocks_rises_again() {
    let mut rig = rig();
    rig.hello(0, 1);
    // The controller's host is suspended for a minute, in which its clock stands still.
    let slept = 60;
    for second in 61..=120 {
        rig.order(s(second), Order::Alive { now: theirs(second - slept) });
        // As a transport looks for silent agents.
        rig.order(s(second), Order::Alive { now: Mono(0) });
    }
    assert!(rig.order(s(121), run(1, 70)).is_empty(), "the order has nine seconds left");
    assert_eq!(rig.did().len(), 1);
    let due = rig.agent.wake(s(121)).unwrap();
    assert!(due < s(130), "{due:?}");
    rig.agent.tick(s(130));
    assert!(rig.did().contains(&Did::Kill(attempt(1))));
}

#[test]
fn controllers_of_another_version_or_epoch_are_turned_away() {
    let mut rig = rig();
    let other = Order::Hello { version: VERSION + 1, epoch: 1, key: None, now: theirs(0), patience_ns: 0 };
    assert!(matches!(rig.order(s(0), other)[..], [Report::Rejected { reason: Reason::Version, .. }]));
    rig.hello(0, 2);
    assert!(matches!(rig.hello(1, 1)[..], [Report::Rejected { reason: Reason::Refused, .. }]));
    rig.order(s(1), run(1, 9));
    rig.did();
    assert!(matches!(rig.hello(2, 3)[..], [Report::Ready { .. }]), "a later one takes the run over");
    rig.end_task(s(3), 1, measured());
    assert!(rig.agent.spool.get(RUN, TaskId(1)).is_some());
    for run in 100..120 {
        rig.of(Uuid::from_u128(run), s(3), hello(3, 1, KEY));
    }
    assert!(rig.agent.sessions.len() <= MAX_RUNS);
}

#[test]
fn an_agent_whose_controller_is_gone_ends_what_runs_and_begins_nothing() {
    let mut rig = rig();
    rig.hello(0, 1);
    rig.order(s(1), reserve(9, 3));
    rig.agent.on_happened(s(1), Happened::Serving { run: RUN, port: Ok(7000) });
    rig.order(s(4), run(1, 30));
    rig.did();
    rig.agent.tick(s(20));
    assert!(!rig.agent.sessions.is_empty() && rig.did().is_empty(), "its test goes on");
    rig.end_task(s(21), 1, measured());
    rig.agent.tick(s(21));
    assert!(rig.agent.sessions.is_empty());
    assert_eq!(rig.did(), [Did::EndServer]);
    assert!(matches!(rig.order(s(22), run(2, 30))[..], [Report::Hello { .. }]));
    assert!(matches!(rig.hello(22, 2)[..], [Report::Ready { .. }, Report::Ended(_)]), "the result waited");
}

#[test]
fn a_farewell_ends_all_of_the_run_and_keeps_nothing_of_it() {
    let mut rig = rig();
    rig.hello(0, 1);
    rig.order(s(1), run(1, 30));
    rig.did();
    rig.order(s(2), Order::Bye);
    assert_eq!(rig.did(), [Did::Ask(attempt(1))]);
    assert!(rig.end_task(s(3), 1, measured()).is_empty());
    assert!(rig.agent.is_idle() && !rig.folder.exists());
}

#[test]
fn ceilings_and_targets_hold_whatever_is_ordered() {
    let mut rig = rig();
    rig.agent.ceilings = Ceilings { targets: vec!["10.1.0.0/16".to_owned()], ..Ceilings::default() };
    rig.hello(0, 1);
    let reports = rig.order(s(1), run(1, 5));
    assert!(
        matches!(&reports[..], [Report::Refused { reason: Reason::Refused, why, .. }] if why.contains("10.0.0.2"))
    );
    rig.agent.ceilings = Ceilings::default();
    let mut order = run(1, 5);
    if let Order::Run { arguments, .. } = &mut order {
        arguments.push("--save".to_owned());
    }
    assert!(matches!(rig.order(s(1), order)[..], [Report::Refused { reason: Reason::Refused, .. }]));
    assert!(rig.did().is_empty() && rig.agent.is_idle());
}

#[test]
fn a_controller_that_was_replaced_gives_no_orders() {
    let mut rig = rig();
    rig.hello(0, 5);
    rig.hello(1, 9);
    for message in [run(1, 20), reserve(2, 20), Order::Bye] {
        rig.agent.on_order(s(2), &Arc::default(), Of { run: RUN, epoch: 5, message });
        assert!(rig.reports().is_empty());
    }
    assert!(!rig.agent.sessions.is_empty() && rig.agent.is_idle(), "the farewell was not this controller's");
    rig.agent.on_order(s(3), &Arc::default(), Of { run: RUN, epoch: 9, message: run(1, 20) });
    assert!(!rig.agent.is_idle());
}

/// A test as the controller's word has it: this class, these words.
fn order(task: u32, class: CostClass, verb: Verb, arguments: &[&str]) -> Order {
    let target = Target { host: "10.0.0.2".to_owned(), port: Some(7411), protocol: None };
    let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
    Order::Run { attempt: attempt(task), class, until: theirs(5), verb, arguments, target }
}

fn key(name: &str, rights: Ceilings) -> Arc<Holder> {
    Arc::new(Holder { name: name.to_owned(), rights })
}

fn is_refused(reports: &[Report]) -> bool {
    matches!(reports, [Report::Refused { reason: Reason::Refused, .. }])
}

#[test]
fn the_class_of_a_test_is_not_the_controllers_word() {
    for verb in [Verb::Tcp, Verb::Load, Verb::Train, Verb::Delay] {
        for class in [CostClass::Background, CostClass::Limited, CostClass::Exclusive] {
            let mut rig = rig();
            rig.hello(0, 1);
            assert!(rig.order(s(1), order(1, class, verb, &[])).is_empty(), "{verb:?} {class:?}");
            let second = rig.order(s(1), order(2, class, verb, &[]));
            assert!(matches!(second[..], [Report::Busy { .. }]), "{verb:?} {class:?}: {second:?}");
            let test = Some(Words { verb, arguments: Vec::new() });
            let reserve = Order::Reserve { attempt: attempt(3), class, until: theirs(5), test };
            assert!(matches!(rig.order(s(1), reserve)[..], [Report::Busy { .. }]), "{verb:?} {class:?}");
        }
    }
    // More care than the test needs may be asked for.
    let mut rig = rig();
    rig.hello(0, 1);
    assert!(rig.order(s(1), order(1, CostClass::Exclusive, Verb::Ping, &[])).is_empty());
    assert!(matches!(
        rig.order(s(1), order(2, CostClass::Exclusive, Verb::Ping, &[]))[..],
        [Report::Busy { .. }]
    ));
}

#[test]
fn ceilings_are_of_all_tests_together_and_of_reservations_too() {
    let mut rig = within(Ceilings { rate: Some(8_000_000), ..Ceilings::default() });
    rig.hello(0, 1);
    let limited = |task, rate: &str| order(task, CostClass::Background, Verb::Tcp, &["--rate", rate]);
    assert!(rig.order(s(1), limited(1, "5000000")).is_empty());
    assert!(matches!(rig.order(s(1), limited(2, "5000000"))[..], [Report::Busy { .. }]));
    assert!(rig.order(s(1), limited(3, "3000000")).is_empty());
    assert!(is_refused(&rig.order(s(1), limited(4, "9000000"))));
    rig.did();
    // A reservation whose test is not said may be of anything.
    let class = CostClass::Background;
    let unknown = Order::Reserve { attempt: attempt(5), class, until: theirs(5), test: None };
    assert!(matches!(rig.order(s(1), unknown.clone())[..], [Report::Busy { .. }]));
    let mut rig = within(Ceilings { rate: Some(8_000_000), ..Ceilings::default() });
    rig.hello(0, 1);
    assert!(rig.order(s(1), unknown).is_empty());
    assert_eq!(rig.did(), [Did::Serve(KEY.to_owned(), Some(8_000_000))], "the server keeps the ceiling");
    assert!(matches!(rig.order(s(1), limited(6, "1000"))[..], [Report::Busy { .. }]));
}

#[test]
fn the_rights_of_a_key_bound_the_orders_of_its_controller() {
    let rights = Ceilings {
        rate: Some(1_000_000),
        time_ns: 2 * SECOND,
        verbs: Some(vec!["fleet", "ping", "tcp"]),
        exclusive: false,
        ..Ceilings::none()
    };
    let (alice, mut rig) = (key("alice", rights), rig());
    rig.by(&alice, s(0), hello(0, 1, KEY));
    let mut by_alice =
        |order| rig.by(&alice, s(1), order).into_iter().map(|(_, report)| report).collect::<Vec<_>>();
    let tcp = |task, class, rate: &str| order(task, class, Verb::Tcp, &["--rate", rate]);
    assert!(is_refused(&by_alice(tcp(1, CostClass::Exclusive, "1000000"))), "exclusive=no");
    assert!(is_refused(&by_alice(tcp(1, CostClass::Limited, "2000000"))), "rate=1M");
    assert!(is_refused(&by_alice(order(1, CostClass::Limited, Verb::Delay, &["--rate", "1000"]))), "verbs=");
    assert!(is_refused(&by_alice(order(1, CostClass::Limited, Verb::Load, &["--rate", "1000"]))), "verbs=");
    let long =
        Order::Reserve { attempt: attempt(1), class: CostClass::Limited, until: theirs(64), test: None };
    assert!(is_refused(&by_alice(long)), "time=2s, and the time of a test that is slow");
    assert!(by_alice(tcp(2, CostClass::Limited, "600000")).is_empty());
    let more = by_alice(tcp(3, CostClass::Limited, "600000"));
    assert!(matches!(more[..], [Report::Busy { .. }]), "the rate is that of all tests of the key: {more:?}");
    assert!(by_alice(tcp(4, CostClass::Limited, "400000")).is_empty());
}

#[test]
fn a_run_belongs_to_the_key_that_began_it() {
    let (alice, bob) = (key("alice", Ceilings::none()), key("bob", Ceilings::none()));
    let mut rig = rig();
    rig.by(&alice, s(0), hello(0, 1, KEY));
    rig.by(&alice, s(1), run(1, 9));
    rig.did();
    let stored = || Order::Stored { tasks: vec![TaskId(1)], numbers: vec![1] };
    let all = [
        hello(1, 99, KEY),
        hello(1, 99, OTHER),
        run(2, 9),
        reserve(3, 9),
        Order::Release { attempt: attempt(1) },
        stored(),
        Order::Alive { now: theirs(1) },
        Order::Bye,
    ];
    let cross = |rig: &mut Rig, now: Mono| {
        for order in all.clone() {
            let heard = rig.by(&bob, now, order.clone());
            assert!(heard.iter().all(|(to, _)| to == "bob"), "{order:?}: {heard:?}");
            let is_told = |report: &Report| matches!(report, Report::Rejected { .. } | Report::Hello { .. });
            assert!(heard.iter().all(|(_, report)| is_told(report)), "{order:?}: {heard:?}");
            assert!(rig.did().is_empty() && !rig.agent.sessions.is_empty(), "{order:?}");
        }
    };
    cross(&mut rig, s(2));
    rig.agent.on_happened(s(3), Happened::Over { run: RUN, attempt: attempt(1), left: measured() });
    let heard = rig.take_reports();
    assert!(matches!(&heard[..], [(to, Report::Ended(_))] if to == "alice"), "{heard:?}");
    cross(&mut rig, s(4));
    assert_eq!(rig.agent.spool.of(RUN).count(), 1, "the result is there");
    // Also once the controller is gone, and at another agent of the host.
    rig.agent.tick(s(60));
    assert!(rig.agent.sessions.is_empty());
    let mut after = made(Ceilings::default(), rig.folder.clone());
    for rig in [&mut rig, &mut after] {
        let heard = rig.by(&bob, s(61), hello(61, 100, KEY));
        assert!(matches!(&heard[..], [(to, Report::Rejected { .. })] if to == "bob"), "{heard:?}");
    }
    let heard = after.by(&alice, s(62), hello(62, 2, KEY));
    assert!(
        matches!(&heard[..], [(_, Report::Ready { .. }), (to, Report::Ended(_))] if to == "alice"),
        "{heard:?}"
    );
    after.by(&alice, s(62), stored());
    assert_eq!(after.agent.spool.of(RUN).count(), 0);
}

#[test]
fn a_run_without_a_drawn_key_has_no_server() {
    for key in [
        None,
        Some(""),
        Some("secret"),
        Some("netcaliper-psk-1:"),
        Some(&KEY[..80]),
        Some("netcaliper-psk-1:zz"),
    ] {
        let mut rig = rig();
        let key = key.map(str::to_owned);
        let hello = Order::Hello { version: VERSION, epoch: 1, key, now: theirs(0), patience_ns: SECOND };
        let reports = rig.order(s(0), hello);
        assert!(matches!(reports[..], [Report::Rejected { reason: Reason::Refused, .. }]), "{reports:?}");
        rig.order(s(0), reserve(1, 5));
        assert!(rig.did().is_empty() && rig.agent.sessions.is_empty());
    }
}
