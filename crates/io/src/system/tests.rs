use super::*;
use crate::testing::here;
use transport::{Join as _, Reactor as _, Ready, Wake as _};

/// Returns its parks in turn. Steps and the keys that are ready go into a mailbox.
struct Script {
    parks: std::vec::IntoIter<Park>,
    reactor: Reactor,
    log: mpsc::Sender<Log>,
}

#[derive(Debug, PartialEq)]
enum Log {
    Step,
    Resume(Vec<u64>),
    Name(Option<String>),
}

impl Task<System> for Script {
    fn step(&mut self) -> Park {
        self.log.send(Log::Step).unwrap();
        self.parks.next().expect("no step follows the end")
    }

    fn reactor(&mut self) -> &mut Reactor {
        &mut self.reactor
    }

    /// What is ready is left where it is.
    fn resume(&mut self, ready: io::Result<&mut Vec<Ready>>) {
        self.log.send(Log::Resume(ready.unwrap().iter().map(|ready| ready.key).collect())).unwrap();
        self.log.send(Log::Name(std::thread::current().name().map(str::to_owned))).unwrap();
    }
}

fn script(parks: Vec<Park>) -> (Script, mpsc::Receiver<Log>) {
    let (log, logged) = System.channel();
    (Script { parks: parks.into_iter(), reactor: System.reactor().unwrap(), log }, logged)
}

#[test]
fn waits_alone_resume_a_task_with_what_is_ready_now() {
    let past = Mono(0);
    let parks = vec![Park::Run, Park::Wait(Some(past)), Park::Sleep(past), Park::Wait(None), Park::Done];
    let (mut task, logged) = script(parks);
    let listener = Listener::bind(here(), false, &SocketSettings::default()).unwrap();
    Watch::<System>::watch(&listener, &task.reactor, 7, Trigger::Level).unwrap();
    let to = Target { to: listener.local().unwrap(), from: None };
    let (stream, _) = crate::testing::connect(&to, &SocketSettings::default());
    drive(&mut task);
    let log: Vec<_> = logged.try_iter().filter(|log| !matches!(log, Log::Name(_))).collect();
    let (step, resume) = (|| Log::Step, || Log::Resume(vec![7]));
    assert_eq!(log, [step(), step(), resume(), step(), step(), resume(), step()]);
    drop(stream);
}

#[test]
fn a_sleep_is_never_cut_short() {
    let clock = System.clock();
    let until = clock.now().plus(2_000_000);
    let (mut task, _logged) = script(vec![Park::Sleep(until), Park::Done]);
    task.reactor.waker().wake();
    drive(&mut task);
    assert!(clock.now() >= until);
}

#[test]
fn a_thread_has_its_name_and_says_whether_it_panicked() {
    let (task, logged) = script(vec![Park::Wait(Some(Mono(0))), Park::Done]);
    assert!(System.spawn("worker-12", task).unwrap().join());
    assert!(logged.try_iter().any(|log| log == Log::Name(Some("worker-12".to_owned()))));
    let (task, _logged) = script(vec![]);
    assert!(!System.spawn("panics", task).unwrap().join());
}
