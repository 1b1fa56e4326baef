//! `struct tcp_info` of FreeBSD (`<netinet/tcp.h>`): Linux's fields of 2.6 by name, of which only
//! those without a leading `__` are filled; windows are in bytes.

use super::read_u32;
use metrics::{SocketState, TcpInfo};

/// Room for more than any kernel fills today.
pub(in crate::tcp) const ROOM: usize = 320;
/// `TCP_INFO`.
#[cfg(target_os = "freebsd")]
pub(in crate::tcp) const OPTION: i32 = libc::TCP_INFO;

/// Offsets in bytes of the fields used, u32 unless a comment says otherwise.
mod at {
    pub(super) const SND_MSS: usize = 16;
    pub(super) const RTT: usize = 68;
    pub(super) const RTTVAR: usize = 72;
    pub(super) const SND_SSTHRESH: usize = 76;
    pub(super) const SND_CWND: usize = 80;
    pub(super) const RCV_SPACE: usize = 96;
    pub(super) const SND_WND: usize = 100;
    /// `tcpi_snd_rexmitpack`: segments retransmitted.
    pub(super) const REXMIT: usize = 120;
}

/// "No threshold yet" (`TCP_MAXWIN << TCP_MAX_WINSHIFT`).
const NO_SSTHRESH: u32 = 65_535 << 14;

/// Decodes the kernel's bytes; `None` when they are fewer than the fields used.
pub(in crate::tcp) fn parse(bytes: &[u8]) -> Option<TcpInfo> {
    let mss = read_u32(bytes, at::SND_MSS)?;
    let segments = |bytes: u32| bytes.checked_div(mss).unwrap_or(0);
    Some(TcpInfo {
        rtt_us: read_u32(bytes, at::RTT)?,
        rttvar_us: read_u32(bytes, at::RTTVAR)?,
        retransmits: read_u32(bytes, at::REXMIT)?,
        cwnd: segments(read_u32(bytes, at::SND_CWND)?),
        snd_mss: mss,
        ssthresh: read_u32(bytes, at::SND_SSTHRESH).filter(|&bytes| bytes < NO_SSTHRESH).map(segments),
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
        rcv_space: read_u32(bytes, at::RCV_SPACE)?,
        mss: info.snd_mss,
        ..SocketState::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ramp, word};
    use super::*;

    #[test]
    fn fields_are_where_freebsd_puts_them() {
        let info = parse(&ramp(ROOM)[..236]).unwrap();
        let mss = word(16);
        assert_eq!((info.snd_mss, info.cwnd), (mss, word(80) / mss));
        assert_eq!(info.ssthresh, None, "above the largest window");
        let mut low = ramp(ROOM);
        low[at::SND_SSTHRESH..at::SND_SSTHRESH + 4].copy_from_slice(&(3 * mss).to_ne_bytes());
        assert!(3_u32.checked_mul(mss).is_some_and(|bytes| bytes < NO_SSTHRESH));
        assert_eq!(parse(&low).unwrap().ssthresh, Some(3));
        assert_eq!((info.rtt_us, info.rttvar_us, info.retransmits), (word(68), word(72), word(120)));
        assert_eq!((info.snd_wnd, info.bytes_sent, info.min_rtt_us), (Some(word(100)), None, None));
        assert_eq!(parse_state(&ramp(ROOM)).unwrap().cwnd_bytes, u64::from(word(80)));
        assert_eq!(parse(&ramp(123)), None);
    }
}
