//! The line of JSON that each end prints.

use crate::Outcome;
use crate::args::{Job, Plan, Verify};
use io::host::{Reading, difference};
use metrics::Dist;
use std::io::Write as _;

/// What one end counted.
pub(crate) struct Count {
    pub(crate) role: &'static str,
    /// Bytes moved, exchanges completed, or datagrams.
    pub(crate) n: u64,
    /// Datagrams that did not come; 0 for everything else.
    pub(crate) lost: u64,
    pub(crate) seconds: f64,
    /// How long something took each time, by name.
    pub(crate) times: Option<(&'static str, Dist)>,
}

/// Prints what was counted, and what the machine spent since `before`.
pub(crate) fn print(plan: &Plan, count: &Count, before: &Reading) -> Outcome<()> {
    let (usage, _) = difference(before, &Reading::now());
    let (busy, softirq) = (usage.machine_s, usage.softirq_s);
    let (mode, what, per, rate) = match plan.job {
        Job::Stream => ("stream", "bytes", "gbit_s", count.n as f64 * 8e-9 / count.seconds),
        Job::Connect | Job::Hold => ("connect", "connections", "conn_s", count.n as f64 / count.seconds),
        Job::Datagrams => ("datagrams", "datagrams", "datagrams_s", count.n as f64 / count.seconds),
        Job::Echo => ("echo", "messages", "messages_s", count.n as f64 / count.seconds),
    };
    let how = match (plan.job, plan.verify) {
        (Job::Connect, _) if plan.rst => "rst",
        (Job::Connect, _) => "fin",
        (Job::Echo, _) if plan.spin => "spin",
        (Job::Echo, _) => "block",
        (Job::Datagrams, _) if plan.segments > 1 => "offload",
        (Job::Datagrams, _) => "single",
        (_, Verify::Compare) => "compare",
        (_, Verify::Read) => "read",
        (_, Verify::Discard) => "discard",
    };
    let times = count.times.as_ref().map_or_else(String::new, |(name, times)| {
        let us = |q| times.quantile(q) as f64 / 1e3;
        format!(r#","{name}":{{"n":{},"p50_us":{:.3},"p99_us":{:.3}}}"#, times.count(), us(0.5), us(0.99))
    });
    writeln!(
        std::io::stdout(),
        r#"{{"mode":"{mode}","role":"{}","how":"{how}","{what}":{},"lost":{},"seconds":{:.6},"{per}":{rate:.3},"machine_cpu_s":{busy:.2},"softirq_cpu_s":{softirq:.2},"flows":{},"workers":{},"cores":{:?},"buffer":{}{times}}}"#,
        count.role, count.n, count.lost, count.seconds, plan.connections, plan.workers, plan.cores, plan.buffer
    )
    .map_err(|e| format!("cannot print: {e}"))
}
