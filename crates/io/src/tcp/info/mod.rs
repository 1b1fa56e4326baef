//! A connection as the kernel knows it: each system's structure, read by offset and length. Every
//! system's reader is compiled for the tests, since the readers for macOS and FreeBSD run nowhere
//! else here.

#[cfg(any(target_os = "freebsd", test))]
mod freebsd;
#[cfg(any(target_os = "linux", test))]
mod linux;
#[cfg(any(target_os = "macos", test))]
mod macos;

#[cfg(target_os = "freebsd")]
pub(super) use freebsd::*;
#[cfg(target_os = "linux")]
pub(super) use linux::*;
#[cfg(target_os = "macos")]
pub(super) use macos::*;

/// `tcpi_state` of a connection that is not connected (any more).
const CLOSED: u8 = if cfg!(target_os = "linux") { 7 } else { 0 };

/// True if the kernel has given the connection up. Its state is the first byte of every system's
/// structure.
pub(super) fn is_closed(bytes: &[u8]) -> bool {
    bytes.first() == Some(&CLOSED)
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

#[cfg(any(not(target_os = "freebsd"), test))]
fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    /// Every byte of a field tells where the field is: u32 at 68 reads as 0x44454647 in the
    /// machine's order.
    pub(super) fn ramp(len: usize) -> Vec<u8> {
        (0..len).map(|i| i as u8).collect()
    }

    pub(super) fn word(at: u8) -> u32 {
        u32::from_ne_bytes([at, at + 1, at + 2, at + 3])
    }

    pub(super) fn long(at: u8) -> u64 {
        u64::from_ne_bytes(std::array::from_fn(|i| at + i as u8))
    }
}
