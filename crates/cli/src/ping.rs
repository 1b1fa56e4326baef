//! `netcaliper ping`.

use crate::args::{HistogramArgs, PingArgs};
use crate::outputs::Outputs;
use crate::stamp::USUAL_RATE;
use crate::{Exit, Trouble, empty, measure, plan};
use metrics::{SECOND, Spectrum};
use model::{Kind, Outcome, Phase, Ping, Range, Schedule, Transport, Verify};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// How long messages take there and back.
pub(crate) fn ping(args: &PingArgs, command: Vec<String>) -> Result<Exit, Trouble> {
    let mut config = plan::client(&args.target, &args.local, true)?;
    config.realtime = args.messages.realtime;
    let method = args.repeat.method(&phase(args, config.psk.is_some())?, &[])?;
    measure::check(&config, &method)?;
    let mut files = Histograms::open(&args.histogram)?;
    let mut outputs =
        Outputs::open(&args.output, None)?.with_pings(args.samples.as_ref(), args.histogram.linear)?;
    let interrupt = measure::on_signals()?;
    let before =
        |phase: &Phase| (!args.messages.no_empty_path).then(|| empty::reading(&config, phase, &interrupt));
    measure::measure("ping", command, &config, method, &interrupt, &mut outputs, before)?;
    files.add(&outputs.outcome());
    files.write()?;
    Ok(outputs.finish())
}

/// The phase that the command line asks for; `keyed` says that a key is known.
fn phase(args: &PingArgs, keyed: bool) -> Result<Phase, Trouble> {
    let m = &args.messages;
    let stamp = args.stamp.settings(args.target.protocol, keyed)?;
    let size = m.size.unwrap_or(stamp.map_or(64, |stamp| stamp.size().into()));
    let rate = m.rate.or(stamp.filter(|_| !m.closed_loop).map(|_| USUAL_RATE));
    let small = |n: u64, what: &str| {
        u32::try_from(n).map_err(|_| Trouble::usage(format!("{what} of {n} bytes is too long: at most 16Mi")))
    };
    let gap_ns = rate.map(|rate| (SECOND as f64 / rate).round() as u64);
    let trace = m.trace.as_deref().map(crate::delay::trace).transpose()?;
    let gap_ns = trace.as_ref().map(|trace| trace.mean_ns().round() as u64).or(gap_ns);
    let ping = Ping {
        transport: if m.udp || stamp.is_some() { Transport::Udp } else { Transport::Tcp },
        size: small(size, "a message")?,
        messages: m.count,
        warmup: m.warmup,
        chunk: m.send_chunk.map(|n| small(n, "a send")).transpose()?,
        schedule: match gap_ns {
            None => Schedule::Closed,
            Some(gap_ns) if trace.is_some() => Schedule::Trace { gap_ns },
            Some(gap_ns) if m.poisson => Schedule::Poisson { gap_ns },
            Some(gap_ns) => Schedule::Fixed { gap_ns },
        },
        timeout_ns: m.timeout,
        busy: m.busy,
        kernel_stamps: m.kernel_stamps,
        samples: args.samples.is_some() || args.output.save.is_some() || args.output.jsonl,
        stamp,
    };
    let mut sockets = plan::sockets(&args.sockets);
    if stamp.is_some() {
        // What is left of it when packets come there tells how many routers there are.
        sockets.ttl = sockets.ttl.or(Some(255));
    }
    Ok(Phase {
        kind: Kind::Ping,
        buffer: Range::just(u64::from(ping.size).clamp(4096, 1 << 20)),
        ping: Some(ping),
        trace,
        connections: m.connections,
        iterations: Some(1),
        duration_ns: m.time.or(m.count.is_none().then_some(10 * SECOND)),
        omit_ns: m.omit.div_ceil(m.interval) * m.interval,
        interval_ns: m.interval,
        // What STAMP packets hold is the far end's, but for what is read.
        verify: if stamp.is_some() { Verify::Connection } else { Verify::Data },
        sockets,
        connect_timeout_ns: m.connect_timeout,
        stall_ns: m.stall_timeout,
        ..Phase::default()
    })
}

/// The files that hold whole distributions, opened before the run.
#[derive(Default)]
pub(crate) struct Histograms {
    hgrm: Option<Box<dyn Write>>,
    csv: Option<Box<dyn Write>>,
    linear: Option<u64>,
    sum: Spectrum,
}

impl Histograms {
    /// Opens what `args` ask for.
    pub(crate) fn open(args: &HistogramArgs) -> Result<Self, Trouble> {
        let open = |path: &std::path::PathBuf| open(path);
        Ok(Histograms {
            hgrm: args.hgrm.as_ref().map(open).transpose()?,
            csv: args.histogram_csv.as_ref().map(open).transpose()?,
            linear: args.linear,
            sum: Spectrum::default(),
        })
    }

    /// Adds the round trips of a run.
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        if let Some(rtt) = report::round_trips(outcome) {
            self.sum.merge(&rtt);
        }
    }

    /// Writes the files.
    pub(crate) fn write(&mut self) -> Result<(), Trouble> {
        let failed = |e: io::Error| Trouble::failed(format!("cannot write the distribution: {e}"));
        if let Some(out) = &mut self.hgrm {
            report::write_hgrm(&self.sum, out).and_then(|()| out.flush()).map_err(failed)?;
        }
        if let Some(out) = &mut self.csv {
            report::write_histogram_csv(&self.sum, self.linear, out).map_err(failed)?;
        }
        Ok(())
    }
}

fn open(path: &Path) -> Result<Box<dyn Write>, Trouble> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdout()));
    }
    let file = File::create(path)
        .map_err(|e| Trouble::failed(format!("cannot write to {}: {e}", path.display())))?;
    Ok(Box::new(BufWriter::new(file)))
}
