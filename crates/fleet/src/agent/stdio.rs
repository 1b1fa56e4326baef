//! An agent's loop, and the transport over standard input and output.

use super::{Agent, Happened, Holder};
use crate::message::{self, MAX_ORDER, Of, Order};
use crate::threads::{no_thread, spawn};
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, sync_channel};
use std::time::Duration;

/// Most lines that wait to be written: more than all results of a run's pairs at one host.
const MAX_WAITING: usize = 4096;
/// Longest time for the last lines.
const FAREWELL: Duration = Duration::from_secs(2);

/// Longest wait of an agent for its first controller.
const FIRST: Duration = Duration::from_secs(60);

/// Inputs of an agent's loop.
#[derive(Debug)]
pub enum Input {
    /// The controller has said something.
    Order(Arc<Holder>, Box<Of<Order>>),
    /// A process has done something.
    Happened(Happened),
    /// No controller will say anything any more; with a sentence where that was not in order.
    Gone(Option<String>),
}

/// Runs an agent over standard input and output, until the controller is gone and the last test
/// over.
///
/// # Errors
/// One sentence, when the controller's words were none, or no thread could be made.
pub fn serve(agent: &mut Agent, inputs: &(Sender<Input>, Receiver<Input>)) -> Result<(), String> {
    let orders = inputs.0.clone();
    spawn("orders", move || read(&orders)).map_err(no_thread)?;
    let (lines, waiting) = sync_channel::<String>(MAX_WAITING);
    let (written, all) = sync_channel::<()>(1);
    let write = move || {
        // A controller that takes no lines has closed the input, too.
        message::write_lines(&waiting, io::stdout().lock());
        let _ = written.send(());
    };
    spawn("reports", write).map_err(no_thread)?;
    agent.introduce(uuid::Uuid::nil());
    let over = drive(agent, &inputs.1, &mut |_, line| lines.try_send(line).is_ok(), true);
    drop(lines);
    // A controller that reads no more keeps the agent from nothing.
    let _ = all.recv_timeout(FAREWELL);
    over
}

/// An agent's loop: handles inputs, does due work, and sends reports to their holders by `send`,
/// which returns false on failure. With `has_one`, the agent is there for one connection, and ends
/// with its controller.
pub(crate) fn drive(
    agent: &mut Agent,
    inputs: &Receiver<Input>,
    send: &mut dyn FnMut(&Holder, String) -> bool,
    has_one: bool,
) -> Result<(), String> {
    let clock = ::io::Clock::new();
    let mut gone: Option<Option<String>> = None;
    let mut is_troubled = false;
    // Without a controller an agent has nothing to do here, even where the connection to it seems
    // to last.
    let (mut was_used, began) = (false, clock.now());
    loop {
        let now = clock.now();
        agent.tick(now);
        let is_used = !agent.sessions.is_empty();
        was_used |= is_used;
        let waited_ns = now.since(began);
        if has_one && !is_used && (was_used || u128::from(waited_ns) >= FIRST.as_nanos()) {
            gone.get_or_insert(None);
        }
        for (to, report) in agent.take_reports() {
            // Results are kept: the next controller collects them.
            if !report.line().is_ok_and(|line| send(&to, line)) && has_one && gone.is_none() {
                gone = Some(None);
                agent.on_silence();
            }
        }
        if let Some(trouble) = agent.spool.trouble.as_deref().filter(|_| !is_troubled) {
            let _ = writeln!(
                io::stderr(),
                "netcaliper: a result could not be stored, and is in memory only: {trouble}"
            );
            is_troubled = true;
        }
        if let Some(why) = gone.take_if(|_| agent.is_idle()) {
            return why.map_or(Ok(()), Err);
        }
        let input = match agent.wake(now).map(|at| Duration::from_nanos(at.since(clock.now()))) {
            Some(wait) => inputs.recv_timeout(wait.max(Duration::from_millis(1))),
            None if has_one && !was_used => inputs.recv_timeout(FIRST),
            None => inputs.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match input {
            Ok(Input::Order(from, order)) => agent.on_order(clock.now(), &from, *order),
            Ok(Input::Happened(happened)) => agent.on_happened(clock.now(), happened),
            Ok(Input::Gone(why)) => {
                gone.get_or_insert(why);
                agent.on_silence();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// Reads orders until the input ends or is none.
fn read(orders: &Sender<Input>) {
    let user = Arc::new(Holder::default());
    let take = |order| orders.send(Input::Order(Arc::clone(&user), Box::new(order))).is_ok();
    let read = message::read_all(io::stdin(), MAX_ORDER, take);
    let why = read.err().map(|e| format!("the controller sent an invalid order: {e}"));
    // The loop may be over.
    let _ = orders.send(Input::Gone(why));
}
