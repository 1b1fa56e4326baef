//! `netcaliper stream`.

use crate::args::datagrams::WAITING;
use crate::args::repeat::RepeatArgs;
use crate::args::values;
use crate::args::{EcnArgs, HeaderArgs, LocalArgs, OutputArgs, SessionArgs, TargetArgs, VERIFY};
use crate::outputs::Outputs;
use crate::protocols;
use crate::verbs::{measure, plan};
use clap::Args;
use console::error::{CliError, Exit};
use metrics::SECOND;
use model::{Kind, Media, Pattern, Phase, Probe, Range, SocketSettings, Verify, Waiting};
use report::Rows;
use std::path::PathBuf;

/// A media stream: frames of datagrams at a fixed rate.
#[derive(Args, Debug)]
pub(crate) struct StreamArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    media: MediaArgs,
    #[command(flatten)]
    run: StreamRunArgs,
    #[command(flatten)]
    local: LocalArgs,
    #[command(flatten)]
    repeat: RepeatArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The streamed media. A ctsTraffic server must have been started with the same rate, frame rate,
/// length and datagram size.
#[derive(Args, Debug)]
#[command(next_help_heading = "Stream")]
struct MediaArgs {
    /// Rate of a stream in bits per second, headers of the measurement included.
    #[arg(short = 'b', long, value_name = "RATE", default_value = "25M", value_parser = values::rate, allow_negative_numbers = true)]
    rate: u64,
    /// Frames per second, 1 to 1000000.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = values::count::<u32, 1_000_000>, allow_negative_numbers = true)]
    fps: u32,
    /// Length of a stream, in whole seconds.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::duration, allow_negative_numbers = true)]
    length: u64,
    /// Playout buffer: delay of every frame's display; datagrams that arrive after it are too late.
    /// In whole frames.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::duration, allow_negative_numbers = true)]
    depth: u64,
    /// Most bytes in one datagram, headers of the measurement included, at most 65507.
    #[arg(long, value_name = "BYTES", default_value_t = 1400, value_parser = values::count::<u32, 65_507>, allow_negative_numbers = true)]
    datagram: u32,
    /// The client sends [default: the server does].
    #[arg(long, conflicts_with = "bidir")]
    up: bool,
    /// Both ends send at the same time.
    #[arg(long)]
    bidir: bool,
    /// The datagrams of a frame leave evenly over its time, instead of back to back.
    #[arg(long)]
    spread: bool,
    /// A datagram that takes longer counts as late; missing ones are waited for as long at the end.
    /// Native only.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = values::duration)]
    late: u64,
    /// Senders' way of waiting for the next due time. Native only.
    #[arg(long, visible_alias = "waiting", default_value = "hybrid", value_parser = values::one_of(WAITING))]
    wait: Waiting,
    /// The receiver's check: every byte of each datagram, or their number only.
    #[arg(long, default_value = "data", value_parser = values::one_of(VERIFY))]
    verify: Verify,
}

/// Number and length of streams.
#[derive(Args, Debug)]
#[command(next_help_heading = "Run")]
struct StreamRunArgs {
    /// Streams at the same time, 1 to 10000 [default: 1, of each server].
    #[arg(short = 'P', long, alias = "parallel", value_name = "N", value_parser = values::count::<u32, 10_000>, allow_negative_numbers = true)]
    connections: Option<u32>,
    /// Number of times that each stream is played, one after the other. Native: once.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = values::count::<u64, { u64::MAX }>, allow_negative_numbers = true)]
    iterations: u64,
    /// Longest time that all of it may take [default: as long as the streams are].
    #[arg(short = 't', long, value_name = "TIME", value_parser = values::duration, allow_negative_numbers = true)]
    time: Option<u64>,
    #[command(flatten)]
    session: SessionArgs,
    /// Receive buffer (SO_RCVBUF) in bytes: data that arrives during a scheduling delay has to fit
    /// [default: four frames, 1Mi at least].
    #[arg(long, value_name = "BYTES", value_parser = values::bytes)]
    rcvbuf: Option<u64>,
    #[command(flatten)]
    header: HeaderArgs,
    #[command(flatten)]
    ecn: EcnArgs,
    /// Write one row per frame that we receive: CSV.
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
}

/// Does a media stream survive the way?
pub(crate) fn stream(args: &StreamArgs, command: Vec<String>) -> Result<Exit, CliError> {
    let native = args.target.protocol == protocols::NATIVE;
    let method = args.repeat.of(&phase(args, native)?, &[]).map_err(CliError::usage)?;
    let mut config = plan::client(&args.target, &args.local, true)?;
    measure::check(&config, &method, &args.output)?;
    let samples = args.run.samples.as_ref();
    let outputs = Outputs::open(&args.output, None, &[samples])?.with(Rows::Frames, samples)?;
    config.records = outputs.records || samples.is_some() || common::config::tells_frames(streams(args));
    measure::run("stream", command, &config, method, outputs)
}

fn streams(args: &StreamArgs) -> u32 {
    plan::connections(args.run.connections, 1, &args.target)
}

fn phase(args: &StreamArgs, native: bool) -> Result<Phase, CliError> {
    let MediaArgs { rate, fps, length, depth, datagram, verify, spread, .. } = &args.media;
    if length % SECOND != 0 {
        return Err(CliError::usage("a stream is whole seconds long: give --length as 1s or more"));
    }
    let media = Media::new(*rate, *fps, length / SECOND, 1, *datagram).map_err(CliError::usage)?;
    let held = u128::from(*depth) * u128::from(*fps) / u128::from(SECOND);
    let media = Media { depth_frames: u64::try_from(held).unwrap_or(u64::MAX), spread: *spread, ..media };
    media.check().map_err(CliError::usage)?;
    Ok(Phase {
        kind: Kind::Stream,
        pattern: match (args.media.up, args.media.bidir) {
            (true, _) => Pattern::Push,
            (_, true) => Pattern::Duplex,
            _ => Pattern::Pull,
        },
        probe: native.then(|| Probe {
            size: media.datagram,
            late_ns: args.media.late,
            waiting: args.media.wait,
            ..Probe::default()
        }),
        media: Some(media),
        connections: streams(args),
        iterations: Some(args.run.iterations),
        transfer: media.frames.saturating_mul(media.frame_size),
        duration_ns: args.run.time,
        interval_ns: args.run.session.interval,
        exclusive: args.run.session.exclusive,
        buffer: Range::just(64 * 1024),
        verify: *verify,
        sockets: SocketSettings {
            dscp: args.run.header.dscp,
            ttl: args.run.header.ttl,
            ecn: args.run.ecn.one()?,
            rcvbuf: args.run.rcvbuf.or(Some(media.receive_buffer())),
            gro: true,
            ..SocketSettings::default()
        },
        ..Phase::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: StreamArgs,
    }

    fn phase_of(words: &str) -> Result<Phase, String> {
        let words = std::iter::once("stream").chain(words.split_whitespace());
        phase(&Line::try_parse_from(words).map_err(|e| e.to_string())?.args, true)
            .map_err(|trouble| trouble.text)
    }

    #[test]
    fn the_defaults_are_the_guides_stream() {
        let phase = phase_of("host").unwrap();
        let media = phase.media.unwrap();
        assert_eq!((media.frames, media.frame_size, media.depth_frames), (3_600, 52_083, 60));
        assert_eq!((phase.transfer, phase.connections, phase.iterations), (187_498_800, 1, Some(1)));
        assert_eq!(phase.check(), Ok(()));
    }

    #[test]
    fn what_cannot_be_is_said() {
        assert_eq!(phase_of("host --depth 200ms --fps 50").unwrap().media.unwrap().depth_frames, 10);
        assert!(phase_of("host --length 1500ms").unwrap_err().contains("whole seconds"));
        assert!(phase_of("host --depth 1ms").unwrap_err().contains("buffer depth"));
        assert!(phase_of("host --rate 1k --fps 100").unwrap_err().contains("a frame would have 1 bytes"));
    }
}
