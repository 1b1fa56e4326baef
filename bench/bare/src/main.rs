//! The bare loop: what this machine can do with netcaliper's system calls, buffers and cores, but
//! with no protocol, no accounting, no time-outs and no second thoughts. `bench/run` sets
//! netcaliper beside it.
//!
//! ```text
//! bare stream  --role server|client|both --addr 127.0.0.1:7500 --connections 8 --workers 2 [--cores 0,1]
//!              [--buffer 256Ki] [--seconds 2] [--verify compare|read|discard] [--congestion NAME] [--nodelay on|off]
//!              [--sndbuf BYTES] [--rcvbuf BYTES]
//! bare connect --role server|client|both --addr 127.0.0.1:7500 --connections 8 --workers 2 [--cores 0,1]
//!              [--seconds 2] [--close rst|fin]
//! bare hold    --role server|client --addr 127.0.0.1:7500 --connections 8 --workers 1 [--throttle 1000]
//! bare datagrams --role server|client|both --addr 127.0.0.1:7500 --workers 2 [--cores 0,1] [--buffer 1400]
//!                [--segments 46] [--rate DATAGRAMS-PER-SECOND] [--seconds 2] [--sndbuf BYTES] [--rcvbuf BYTES]
//!                [--sockets N] [--verify compare|read] [--pause BYTES] [--wait spin|block]
//! bare echo    --role server|client|both --addr 127.0.0.1:7500 --transport tcp|udp --wait spin|block [--cores 0]
//!              [--buffer 64] [--seconds 2]
//! ```
//!
//! Each role prints one line of JSON when it ends. `both` runs the server on threads of the same
//! process. The receiver's line is the result of `stream` and `datagrams`, the client's that of
//! `connect` and `echo`. Worker i of the server listens at port + i in `stream`, so that
//! connections are spread evenly without a protocol that says where they belong; in `connect` all
//! workers share one port.
//!
//! Only Linux is meant: elsewhere it compiles, and the reactor would want to be re-armed.
#![forbid(unsafe_code)]

mod args;
mod connect;
mod datagrams;
mod echo;
mod hold;
mod result;
mod stream;

use args::{Job, Plan, Role};
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::mpsc::Sender;

/// What goes wrong is told in one sentence.
type Outcome<T> = Result<T, String>;

fn main() -> ExitCode {
    match args::parse(std::env::args().skip(1)).and_then(|plan| run(&plan)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            // Without stderr the exit code must do.
            let _ = writeln!(std::io::stderr(), "bare: {sentence}");
            ExitCode::FAILURE
        }
    }
}

fn run(plan: &Plan) -> Outcome<()> {
    match plan.role {
        Role::Server => serve(plan, None),
        Role::Client => call(plan),
        Role::Both => std::thread::scope(|scope| {
            let (ready, listening) = std::sync::mpsc::channel();
            let server = scope.spawn(|| serve(plan, Some(ready)));
            // A server that cannot listen drops its end, and says why when it is joined.
            let called = if listening.recv().is_ok() { call(plan) } else { Ok(()) };
            // Some servers have no end of their own; leaving takes them along.
            if matches!(plan.job, Job::Connect | Job::Hold | Job::Echo)
                && called.is_ok()
                && !server.is_finished()
            {
                std::process::exit(0);
            }
            server.join().unwrap_or_else(|_| Err("the server has panicked".to_owned())).and(called)
        }),
    }
}

/// Runs the server; `ready` is told when it listens.
fn serve(plan: &Plan, ready: Option<Sender<()>>) -> Outcome<()> {
    match plan.job {
        Job::Stream => stream::serve(plan, ready),
        Job::Connect => connect::serve(plan, ready),
        Job::Hold => hold::serve(plan, ready),
        Job::Datagrams => datagrams::serve(plan, ready),
        Job::Echo => echo::serve(plan, ready),
    }
}

fn call(plan: &Plan) -> Outcome<()> {
    match plan.job {
        Job::Stream => stream::call(plan),
        Job::Connect => connect::call(plan),
        Job::Hold => hold::call(plan),
        Job::Datagrams => datagrams::call(plan),
        Job::Echo => echo::call(plan),
    }
}

/// Runs `body` on every worker, each on its core, and gathers what they found.
fn on_workers<T: Send>(plan: &Plan, body: impl Fn(usize) -> Outcome<T> + Sync) -> Outcome<Vec<T>> {
    let body = &body;
    std::thread::scope(|scope| {
        let start = |worker: usize| {
            scope.spawn(move || {
                if let Some(&core) = plan.cores.get(worker % plan.cores.len().max(1)) {
                    io::thread::pin(&[core]).map_err(|e| format!("cannot use core {core}: {e}"))?;
                }
                body(worker)
            })
        };
        let threads: Vec<_> = (0..plan.workers).map(start).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Outcome<T>>| {
            thread.join().unwrap_or_else(|_| Err("a worker has panicked".to_owned()))
        };
        threads.into_iter().map(join).collect()
    })
}
