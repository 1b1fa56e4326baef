//! Which pairs are measured with which tests.

mod forecast;
mod make;
mod rounds;

use crate::inventory::{HostId, Inventory};
pub use forecast::{Busiest, Forecast, GroupForecast};
#[cfg(test)]
pub(crate) use make::Random;
pub use make::{Request, Shape};
use model::{Cost, Kind, Phase};
pub use rounds::{MAX_ROUNDS, Round, Rounds};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
pub use uuid::Uuid as RunId;
use uuid::Uuid;

/// Most tasks of a plan.
pub const MAX_TASKS: usize = 2_000_000;

/// Tests of at most this rate are limited ones, bits/s of a direction.
const PACED: u64 = 10_000_000;
/// Pings of at most this rate are background tests, bits/s of a direction.
const LIGHT: u64 = 1_000_000;
/// Pings of at most this rate are background tests, messages a second.
const LIGHT_MESSAGES: f64 = 100.0;

/// Position of a task in its plan. A run's results name tasks by it, so that a repeated result is
/// recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(pub u32);

impl TaskId {
    /// Index into [`Plan::tasks`].
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// An attempt at a task. Agents and results name it, so that the report of an attempt given up is
/// not taken for that of a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attempt {
    /// The task.
    pub task: TaskId,
    /// Its number, from 1.
    pub number: u32,
}

/// A test's disturbance of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CostClass {
    /// Fills the path, or may: no test of the run is beside it, at either host.
    #[default]
    Exclusive,
    /// Is paced: a few of its class run at a host, never beside an exclusive one.
    Limited,
    /// Is as light as a ping, and measures the idle path: runs beside all but exclusive tests, and
    /// counts against no group's limit.
    Background,
}

impl CostClass {
    /// The class of a test: its bits decide, of one direction, and of pings also the number of
    /// messages.
    #[must_use]
    pub fn of(phase: &Phase) -> CostClass {
        let Cost { load_bps, per_second, bytes, .. } = phase.cost();
        let is_ping = phase.kind == Kind::Ping;
        // All messages of a closed loop, at worst in one second.
        let at_once = bytes.filter(|_| is_ping && load_bps.is_none()).map(|bytes| bytes.saturating_mul(4));
        match load_bps.or(at_once) {
            Some(bps) if is_ping && bps <= LIGHT && per_second.is_some_and(|n| n <= LIGHT_MESSAGES) => {
                CostClass::Background
            }
            Some(bps) if bps <= PACED => CostClass::Limited,
            _ => CostClass::Exclusive,
        }
    }

    /// As the command line has it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            CostClass::Exclusive => "exclusive",
            CostClass::Limited => "limited",
            CostClass::Background => "background",
        }
    }
}

/// The question of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Round trips of messages.
    #[default]
    Ping,
    /// Datagrams: delay, loss, jitter.
    Delay,
    /// Goodput over TCP.
    Tcp,
    /// Delays of an idle and of a full path.
    Load,
    /// Trains of packets.
    Train,
    /// Maximum IP-layer capacity.
    Capacity,
}

impl Verb {
    /// All of them.
    pub const ALL: [Verb; 6] = [Verb::Ping, Verb::Delay, Verb::Tcp, Verb::Load, Verb::Train, Verb::Capacity];

    /// As the command line has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Verb::Ping => "ping",
            Verb::Delay => "delay",
            Verb::Tcp => "tcp",
            Verb::Load => "load",
            Verb::Train => "train",
            Verb::Capacity => "capacity",
        }
    }
}

/// A test of every pair: a command line without the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Test {
    /// The question.
    pub verb: Verb,
    /// Its options, one word each, without the host.
    pub arguments: Vec<String>,
    /// Its disturbance of others.
    pub class: CostClass,
    /// Its duration if nothing goes wrong, ns, start and end included.
    pub length_ns: u64,
    /// Additional time if answers are lost, ns.
    #[serde(default, skip_serializing_if = "crate::message::is_zero")]
    pub wait_ns: u64,
    /// Payload of one test, both directions, where the options limit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl Test {
    /// The options that the client is given: where it runs at the receiving host, the direction is
    /// turned round.
    pub(crate) fn ordered(&self, is_reversed: bool) -> Vec<String> {
        let mut arguments = self.arguments.clone();
        let at = |names: &[&str]| arguments.iter().position(|word| names.contains(&word.as_str()));
        let (reverse, both) = (at(&["-R", "--reverse"]), at(&["--bidir", "--echo", "--both"]));
        match self.verb {
            _ if !is_reversed || both.is_some() => {}
            Verb::Tcp | Verb::Train | Verb::Capacity => match reverse {
                Some(at) => drop(arguments.remove(at)),
                None => arguments.push("--reverse".to_owned()),
            },
            // By itself it measures both directions.
            Verb::Delay => match (at(&["--up"]), reverse) {
                (Some(at), _) => "--reverse".clone_into(&mut arguments[at]),
                (None, Some(at)) => "--up".clone_into(&mut arguments[at]),
                (None, None) => {}
            },
            Verb::Ping | Verb::Load => {}
        }
        arguments
    }

    /// As the command line has it, without the host.
    #[must_use]
    pub fn words(&self) -> String {
        let mut words = vec![self.verb.name()];
        words.extend(self.arguments.iter().map(String::as_str));
        words.join(" ")
    }
}

/// One test of one directed pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its position in the plan.
    pub id: TaskId,
    /// The host that sends, and runs the client where a connection reaches `to`.
    pub from: HostId,
    /// The host that receives.
    pub to: HostId,
    /// Index into [`Plan::tests`].
    pub test: u16,
    /// Number of the repetition, from 0.
    pub repeat: u16,
}

/// All tasks of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Identifier of the run.
    pub run: Uuid,
    /// Which round of a series the run is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<Round>,
    /// The hosts and groups.
    pub inventory: Inventory,
    /// The tests of each pair.
    pub tests: Vec<Test>,
    /// In the order of preference; a task's [`TaskId`] is its position.
    pub tasks: Vec<Task>,
}

impl Plan {
    /// Reads a plan from its JSON.
    ///
    /// # Errors
    /// One sentence, when it is none.
    pub fn read(json: &[u8]) -> Result<Plan, String> {
        let plan: Plan =
            serde_json::from_slice(json).map_err(|e| format!("this is no plan of a fleet: {e}"))?;
        let is_placed = plan.tasks.iter().enumerate().all(|(at, task)| {
            let hosts = [task.from, task.to].iter().all(|host| plan.inventory.host(*host).is_some());
            task.id.index() == at && hosts && plan.test(task).is_some()
        });
        let is_whole = is_placed && plan.tasks.len() <= MAX_TASKS;
        is_whole.then_some(plan).ok_or("the plan names hosts, tests or tasks that are not in it".to_owned())
    }

    /// The same plan as the run of this round.
    #[must_use]
    pub fn in_round(self, round: Round) -> Plan {
        Plan { run: round.run(), round: Some(round), ..self }
    }

    /// The task at this position.
    pub(crate) fn task(&self, id: TaskId) -> Option<&Task> {
        self.tasks.get(id.index())
    }

    /// The test of a task.
    pub(crate) fn test(&self, task: &Task) -> Option<&Test> {
        self.tests.get(usize::from(task.test))
    }

    /// The task at this position, and its test.
    pub(crate) fn task_and_test(&self, id: TaskId) -> Option<(&Task, &Test)> {
        let task = self.task(id)?;
        Some((task, self.test(task)?))
    }

    /// True if the client of a task runs at the host that receives.
    pub(crate) fn is_reversed(&self, task: &Task) -> bool {
        self.inventory.client(task.from, task.to) != Some(task.from)
    }

    /// The identifier of a task's outcome after `attempts` attempts, in matrix, store and names of
    /// pages.
    pub(crate) fn outcome_id(&self, task: TaskId, attempts: u32) -> Uuid {
        derived(self.run, &[task.0, attempts])
    }

    /// The class of a task. The load of a host without an agent is unknown, so that it has one test
    /// at a time.
    pub(crate) fn class_of(&self, task: &Task) -> CostClass {
        let hosts = [task.from, task.to].map(|host| self.inventory.host(host));
        let is_passive = hosts.into_iter().flatten().any(|host| host.passive_protocol().is_some());
        self.test(task).filter(|_| !is_passive).map_or(CostClass::Exclusive, |test| test.class)
    }
}

/// An identifier made of another one and of numbers: the same for every maker.
fn derived(of: Uuid, numbers: &[u32]) -> Uuid {
    let digest = Sha256::new().chain_update(of.as_bytes());
    let digest = numbers.iter().fold(digest, |digest, n| digest.chain_update(n.to_be_bytes()));
    let bytes = digest.finalize().first_chunk().copied().unwrap_or_default();
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests;
