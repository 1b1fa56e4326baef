//! `struct tcp_connection_info` of macOS (`<netinet/tcp.h>`, since 10.10).

use super::{read_u32, read_u64};
use metrics::{SocketState, TcpInfo};

/// Bytes of the structure.
pub(in crate::tcp) const ROOM: usize = 112;
/// `TCP_CONNECTION_INFO`.
#[cfg(target_os = "macos")]
pub(in crate::tcp) const OPTION: i32 = libc::TCP_CONNECTION_INFO;
/// Offsets in bytes of the fields used, u32 unless a comment says otherwise. Times are in
/// milliseconds, windows in bytes.
mod at {
    pub(super) const MAXSEG: usize = 16;
    pub(super) const SND_SSTHRESH: usize = 20;
    pub(super) const SND_CWND: usize = 24;
    pub(super) const SND_WND: usize = 28;
    /// Bytes in the send buffer, those under way included.
    pub(super) const SND_SBBYTES: usize = 32;
    pub(super) const SRTT: usize = 44;
    pub(super) const RTTVAR: usize = 48;
    // 52: bit fields of TCP Fast Open; 56 txpackets u64.
    /// u64, as the next; retransmissions included.
    pub(super) const TXBYTES: usize = 64;
    pub(super) const TXRETRANSMITBYTES: usize = 72;
}

/// "No threshold yet" (`TCP_MAXWIN << TCP_MAX_WINSHIFT`).
const NO_SSTHRESH: u32 = 65_535 << 14;

/// Decodes the kernel's bytes; `None` when they are fewer than the structure has. The kernel counts
/// retransmitted bytes, not segments: `retransmits` is their number in full segments.
pub(in crate::tcp) fn parse(bytes: &[u8]) -> Option<TcpInfo> {
    let mss = read_u32(bytes, at::MAXSEG)?;
    let segments = |bytes: u32| bytes.checked_div(mss).unwrap_or(0);
    let retransmitted = read_u64(bytes, at::TXRETRANSMITBYTES)?;
    Some(TcpInfo {
        rtt_us: read_u32(bytes, at::SRTT)?.saturating_mul(1000),
        rttvar_us: read_u32(bytes, at::RTTVAR)?.saturating_mul(1000),
        retransmits: u32::try_from(retransmitted.div_ceil(u64::from(mss.max(1)))).unwrap_or(u32::MAX),
        cwnd: segments(read_u32(bytes, at::SND_CWND)?),
        snd_mss: mss,
        ssthresh: read_u32(bytes, at::SND_SSTHRESH).filter(|&bytes| bytes < NO_SSTHRESH).map(segments),
        bytes_sent: read_u64(bytes, at::TXBYTES),
        bytes_retrans: Some(retransmitted),
        snd_wnd: read_u32(bytes, at::SND_WND),
        ..TcpInfo::default()
    })
}

/// Decodes the part of the kernel's bytes that concerns a single message.
pub(in crate::tcp) fn parse_state(bytes: &[u8]) -> Option<SocketState> {
    let info = parse(bytes)?;
    Some(SocketState {
        ssthresh: info.ssthresh.unwrap_or_default(),
        cwnd_bytes: u64::from(read_u32(bytes, at::SND_CWND)?),
        rtt_us: info.rtt_us,
        rttvar_us: info.rttvar_us,
        retransmits: info.retransmits,
        queued: u64::from(read_u32(bytes, at::SND_SBBYTES)?),
        mss: info.snd_mss,
        ..SocketState::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{long, ramp, word};
    use super::*;

    #[test]
    fn fields_are_where_macos_puts_them() {
        let info = parse(&ramp(ROOM)).unwrap();
        let mss = word(16);
        assert_eq!((info.snd_mss, info.cwnd, info.ssthresh), (mss, word(24) / mss, Some(word(20) / mss)));
        assert_eq!((info.bytes_sent, info.bytes_retrans), (Some(long(64)), Some(long(72))));
        assert_eq!((info.snd_wnd, info.min_rtt_us, info.delivery_rate), (Some(word(28)), None, None));
        let state = parse_state(&ramp(ROOM)).unwrap();
        assert_eq!((state.cwnd_bytes, state.queued), (u64::from(word(24)), u64::from(word(32))));
        assert_eq!(parse(&ramp(ROOM)[..79]), None);
    }

    #[test]
    fn milliseconds_and_retransmitted_bytes_are_converted() {
        let mut bytes = vec![0; ROOM];
        for (at, value) in [(at::MAXSEG, 1448_u32), (at::SRTT, 20), (at::RTTVAR, 3)] {
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        bytes[at::SND_SSTHRESH..at::SND_SSTHRESH + 4].copy_from_slice(&NO_SSTHRESH.to_ne_bytes());
        bytes[at::TXRETRANSMITBYTES..at::TXRETRANSMITBYTES + 8].copy_from_slice(&2897_u64.to_ne_bytes());
        let info = parse(&bytes).unwrap();
        assert_eq!((info.rtt_us, info.rttvar_us, info.retransmits), (20_000, 3_000, 3));
        assert_eq!(info.ssthresh, None);
        assert_eq!(parse(&[0; ROOM]).unwrap().cwnd, 0, "no segment size is no division by zero");
    }
}
