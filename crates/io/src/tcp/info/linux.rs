//! `struct tcp_info` of Linux, read by offset and length: the kernel fills as much of it as it
//! knows.

use super::{read_u32, read_u64};
use metrics::{EcnBytes, SocketState, TcpEcnInfo, TcpInfo};

/// Room for more than any kernel fills today (Linux 7.0: 280 bytes).
pub(in crate::tcp) const ROOM: usize = 320;

/// `TCP_INFO`.
#[cfg(target_os = "linux")]
pub(in crate::tcp) const OPTION: i32 = libc::TCP_INFO;

/// Offsets in bytes of the fields used; the width is that of the reader (u8, u32 or u64, native
/// order). The layout is part of the kernel's interface: fields are only ever added at the end.
mod at {
    /// `tcpi_options`, u8.
    pub(super) const OPTIONS: usize = 5;
    /// Bit 0 of the byte after the two window scales: `tcpi_delivery_rate_app_limited`.
    pub(super) const FLAGS: usize = 7;
    pub(super) const SND_MSS: usize = 16;
    /// `tcpi_unacked`, segments.
    pub(super) const UNACKED: usize = 24;
    pub(super) const RCV_SSTHRESH: usize = 64;
    pub(super) const RTT: usize = 68;
    pub(super) const RTTVAR: usize = 72;
    pub(super) const SND_SSTHRESH: usize = 76;
    pub(super) const SND_CWND: usize = 80;
    pub(super) const RCV_RTT: usize = 92;
    pub(super) const RCV_SPACE: usize = 96;
    /// `tcpi_total_retrans`; the last field of Linux 2.6's structure is the u32 here.
    pub(super) const TOTAL_RETRANS: usize = 100;
    // 104 pacing_rate u64, 112 max_pacing_rate u64 (3.15).
    /// u64, Linux 4.1.
    pub(super) const BYTES_ACKED: usize = 120;
    /// u64, Linux 4.1.
    pub(super) const BYTES_RECEIVED: usize = 128;
    // 136 segs_out, 140 segs_in (4.2).
    /// `tcpi_notsent_bytes`, Linux 4.6, as the next.
    pub(super) const NOTSENT: usize = 144;
    pub(super) const MIN_RTT: usize = 148;
    // 152 data_segs_in, 156 data_segs_out (4.6).
    /// u64, Linux 4.9.
    pub(super) const DELIVERY_RATE: usize = 160;
    /// u64, Linux 4.10, as the next two.
    pub(super) const BUSY_TIME: usize = 168;
    pub(super) const RWND_LIMITED: usize = 176;
    pub(super) const SNDBUF_LIMITED: usize = 184;
    /// Linux 4.18, as the next.
    pub(super) const DELIVERED: usize = 192;
    pub(super) const DELIVERED_CE: usize = 196;
    /// u64, Linux 4.19, as the next.
    pub(super) const BYTES_SENT: usize = 200;
    pub(super) const BYTES_RETRANS: usize = 208;
    // 216 dsack_dups (4.19).
    /// Linux 4.19.
    pub(super) const REORD_SEEN: usize = 220;
    // 224 rcv_ooopack (5.4).
    /// Linux 5.4.
    pub(super) const SND_WND: usize = 228;
    // 232 rcv_wnd, 236 rehash (6.2); 240 total_rto u16, 242 total_rto_recoveries u16, 244
    // total_rto_time (6.7).
    /// Segments; Linux 6.18, as all that follow.
    pub(super) const RECEIVED_CE: usize = 248;
    /// Bytes with ECT(1), ECT(0) and CE, a u32 each.
    pub(super) const DELIVERED_BYTES: usize = 252;
    pub(super) const RECEIVED_BYTES: usize = 264;
    /// In Linux 6.18 two u16 about the option of Accurate ECN, which stay 0 because it cannot be
    /// negotiated; from 7.0 on bit fields, of which `tcpi_ecn_mode` is the first.
    pub(super) const ECN_MODE: usize = 276;
}

/// "No threshold yet" (`TCP_INFINITE_SSTHRESH`).
const NO_SSTHRESH: u32 = 0x7fff_ffff;
const NO_MIN_RTT: u32 = u32::MAX;

/// Decodes the kernel's bytes; `None` when they are fewer than those of Linux 2.6.
pub(in crate::tcp) fn parse(bytes: &[u8]) -> Option<TcpInfo> {
    let retransmits = read_u32(bytes, at::TOTAL_RETRANS)?;
    Some(TcpInfo {
        rtt_us: read_u32(bytes, at::RTT)?,
        rttvar_us: read_u32(bytes, at::RTTVAR)?,
        min_rtt_us: read_u32(bytes, at::MIN_RTT).filter(|&us| us != NO_MIN_RTT),
        retransmits,
        cwnd: read_u32(bytes, at::SND_CWND)?,
        snd_mss: read_u32(bytes, at::SND_MSS)?,
        ssthresh: read_u32(bytes, at::SND_SSTHRESH).filter(|&segments| segments < NO_SSTHRESH),
        delivery_rate: read_u64(bytes, at::DELIVERY_RATE).filter(|&rate| rate != 0),
        app_limited: bytes.get(at::FLAGS).is_some_and(|flags| app_limited(*flags)),
        busy_us: read_u64(bytes, at::BUSY_TIME),
        rwnd_limited_us: read_u64(bytes, at::RWND_LIMITED),
        sndbuf_limited_us: read_u64(bytes, at::SNDBUF_LIMITED),
        bytes_sent: read_u64(bytes, at::BYTES_SENT),
        bytes_retrans: read_u64(bytes, at::BYTES_RETRANS),
        bytes_acked: read_u64(bytes, at::BYTES_ACKED),
        bytes_received: read_u64(bytes, at::BYTES_RECEIVED),
        ecn: parse_ecn(bytes),
        reord_seen: read_u32(bytes, at::REORD_SEEN),
        rcv_rtt_us: read_u32(bytes, at::RCV_RTT)?,
        snd_wnd: read_u32(bytes, at::SND_WND),
    })
}

/// `TCPI_OPT_ECN` and `TCPI_OPT_ECN_SEEN` of linux/tcp.h.
const NEGOTIATED: u8 = 8;
const SEEN: u8 = 16;

/// The fields about ECN; the byte of options is older than any kernel that is supported.
fn parse_ecn(bytes: &[u8]) -> Option<TcpEcnInfo> {
    let options = *bytes.get(at::OPTIONS)?;
    let negotiated = options & NEGOTIATED != 0;
    let codepoints = |from: usize| {
        let field = |place: usize| read_u32(bytes, from + 4 * place).map(u64::from);
        Some(EcnBytes { ect1: field(0)?, ect0: field(1)?, ce: field(2)? })
    };
    // `TCPI_ECN_MODE_DISABLED`, `_RFC3168`, `_ACCECN`, `_PENDING`.
    let accurate = match (read_u32(bytes, at::ECN_MODE).map(ecn_mode), negotiated) {
        (Some(2), _) => Some(true),
        (Some(1), _) | (Some(0), false) => Some(false),
        _ => None,
    };
    Some(TcpEcnInfo {
        negotiated,
        seen: options & SEEN != 0,
        accurate,
        delivered: read_u32(bytes, at::DELIVERED),
        delivered_ce: read_u32(bytes, at::DELIVERED_CE),
        received_ce: read_u32(bytes, at::RECEIVED_CE),
        delivered_bytes: codepoints(at::DELIVERED_BYTES),
        received_bytes: codepoints(at::RECEIVED_BYTES),
    })
}

/// The first bit field, of two bits: the lowest ones where the compiler fills from the low end.
fn ecn_mode(word: u32) -> u32 {
    if cfg!(target_endian = "little") { word & 3 } else { word >> 30 }
}

/// Decodes the part of the kernel's bytes that concerns a single message; `None` when they are
/// fewer than those of Linux 2.6.
pub(in crate::tcp) fn parse_state(bytes: &[u8]) -> Option<SocketState> {
    let mss = read_u32(bytes, at::SND_MSS)?;
    let unsent = read_u32(bytes, at::NOTSENT).unwrap_or(0);
    Some(SocketState {
        ssthresh: read_u32(bytes, at::SND_SSTHRESH)?,
        cwnd_bytes: u64::from(read_u32(bytes, at::SND_CWND)?) * u64::from(mss),
        rtt_us: read_u32(bytes, at::RTT)?,
        rttvar_us: read_u32(bytes, at::RTTVAR)?,
        retransmits: read_u32(bytes, at::TOTAL_RETRANS)?,
        rcv_ssthresh: read_u32(bytes, at::RCV_SSTHRESH)?,
        rcv_rtt_us: read_u32(bytes, at::RCV_RTT)?,
        rcv_space: read_u32(bytes, at::RCV_SPACE)?,
        queued: u64::from(read_u32(bytes, at::UNACKED)?) * u64::from(mss) + u64::from(unsent),
        mss,
        ..SocketState::default()
    })
}

/// The first bit field of its byte: the lowest bit where the compiler fills from the low end.
fn app_limited(flags: u8) -> bool {
    if cfg!(target_endian = "little") { flags & 1 != 0 } else { flags & 0x80 != 0 }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{long, ramp, word};
    use super::*;

    #[test]
    fn fields_are_where_the_kernel_puts_them() {
        let expected = |len: usize| TcpInfo {
            bytes_received: Some(long(128)),
            ecn: parse_ecn(&ramp(ROOM)[..len]),
            rtt_us: word(68),
            rttvar_us: word(72),
            min_rtt_us: Some(word(148)),
            retransmits: word(100),
            cwnd: word(80),
            snd_mss: word(16),
            ssthresh: Some(word(76)),
            delivery_rate: Some(long(160)),
            app_limited: true,
            busy_us: Some(long(168)),
            rwnd_limited_us: Some(long(176)),
            sndbuf_limited_us: Some(long(184)),
            bytes_sent: Some(long(200)),
            bytes_retrans: Some(long(208)),
            bytes_acked: Some(long(120)),
            reord_seen: Some(word(220)),
            rcv_rtt_us: word(92),
            snd_wnd: Some(word(228)),
        };
        for len in [232, 240, 248, ROOM] {
            assert_eq!(parse(&ramp(ROOM)[..len]), Some(expected(len)));
        }
    }

    #[test]
    fn fields_about_ecn_are_where_each_kernel_puts_them() {
        let field = |at: usize| u32::from_ne_bytes(ramp(ROOM)[at..at + 4].try_into().unwrap());
        let sum = |at: usize| u64::from(field(at));
        let codepoints = |at: usize| EcnBytes { ect1: sum(at), ect0: sum(at + 4), ce: sum(at + 8) };
        let mut bytes = ramp(ROOM);
        bytes[5] = 8 | 16;
        bytes[276..280].copy_from_slice(&[0; 4]);
        let whole = TcpEcnInfo {
            negotiated: true,
            seen: true,
            // Linux 6.18 does not say.
            accurate: None,
            delivered: Some(field(192)),
            delivered_ce: Some(field(196)),
            received_ce: Some(field(248)),
            delivered_bytes: Some(codepoints(252)),
            received_bytes: Some(codepoints(264)),
        };
        assert_eq!(parse_ecn(&bytes[..280]), Some(whole));
        let older = TcpEcnInfo { received_ce: None, delivered_bytes: None, received_bytes: None, ..whole };
        assert_eq!(parse_ecn(&bytes[..248]), Some(older), "Linux 6.7");
        let oldest = TcpEcnInfo { delivered: None, delivered_ce: None, ..older };
        assert_eq!(parse_ecn(&bytes[..192]), Some(oldest), "Linux 4.17");
        // A counter cut in the middle is none.
        assert_eq!(parse_ecn(&bytes[..275]).unwrap().received_bytes, None);
        // Linux 7.0: classic and Accurate ECN, pending, and none.
        let known = [(1, Some(false)), (2, Some(true)), (3, None)];
        for (mode, accurate) in known {
            let word: u32 = if cfg!(target_endian = "little") { mode | 0xf0 } else { mode << 30 };
            bytes[276..280].copy_from_slice(&word.to_ne_bytes());
            assert_eq!(parse_ecn(&bytes).unwrap().accurate, accurate, "{mode}");
        }
        (bytes[5], bytes[276]) = (1, 0);
        assert_eq!(parse_ecn(&bytes[..104]).unwrap().accurate, None);
    }

    #[test]
    fn what_concerns_a_message_is_where_the_kernel_puts_it() {
        // Offsets of <linux/tcp.h>: rcv_ssthresh 64, rcv_rtt 92, rcv_space 96.
        let expected = SocketState {
            ssthresh: word(76),
            cwnd_bytes: u64::from(word(80)) * u64::from(word(16)),
            rtt_us: word(68),
            rttvar_us: word(72),
            retransmits: word(100),
            rcv_ssthresh: word(64),
            rcv_rtt_us: word(92),
            rcv_space: word(96),
            // Segments under way (24) and bytes that are to be sent (144, which old kernels lack).
            queued: u64::from(word(24)) * u64::from(word(16)) + u64::from(word(144)),
            mss: word(16),
            ..SocketState::default()
        };
        assert_eq!(parse_state(&ramp(ROOM)[..148]), Some(expected));
        let old = SocketState { queued: u64::from(word(24)) * u64::from(word(16)), ..expected };
        assert_eq!((parse_state(&ramp(ROOM)[..104]), parse_state(&ramp(ROOM)[..103])), (Some(old), None));
    }

    #[test]
    fn what_an_older_kernel_does_not_write_is_absent() {
        for len in 0..104 {
            assert_eq!(parse(&ramp(ROOM)[..len]), None);
        }
        let info = parse(&ramp(ROOM)[..104]).unwrap();
        assert_eq!((info.min_rtt_us, info.delivery_rate, info.busy_us), (None, None, None));
        assert_eq!((info.bytes_sent, info.reord_seen, info.snd_wnd), (None, None, None));
        assert_eq!(info.bytes_acked, None);
        let info = parse(&ramp(ROOM)[..192]).unwrap();
        assert_eq!((info.sndbuf_limited_us, info.bytes_sent), (Some(long(184)), None));
        // A field cut in the middle is no field.
        assert_eq!(parse(&ramp(ROOM)[..191]).unwrap().sndbuf_limited_us, None);
    }

    #[test]
    fn marks_for_nothing_known_are_absent() {
        let mut bytes = vec![0; 248];
        bytes[76..80].copy_from_slice(&NO_SSTHRESH.to_ne_bytes());
        bytes[148..152].copy_from_slice(&NO_MIN_RTT.to_ne_bytes());
        let info = parse(&bytes).unwrap();
        assert_eq!((info.ssthresh, info.min_rtt_us, info.delivery_rate), (None, None, None));
        assert!(!info.app_limited);
    }
}
