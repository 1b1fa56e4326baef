//! Descriptors that have run out.

/// True if the process, or the system, has no descriptors left: EMFILE and ENFILE, and Windows'
/// WSAEMFILE.
pub(crate) fn is_exhausted(fault: &transport::Fault) -> bool {
    matches!(fault.errno, 23 | 24 | 10_024)
}

/// The remaining descriptors are kept for other peers: EMFILE.
pub(crate) const NO_ROOM: transport::Fault = transport::Fault { deed: transport::Deed::Open, errno: 24 };

/// The failed action, and the remedy when descriptors have run out.
pub(crate) fn fault_text(what: &str, fault: &transport::Fault) -> String {
    let advice =
        if is_exhausted(fault) { ": raise the limit (ulimit -n, LimitNOFILE= in the service)" } else { "" };
    format!("{what}: {fault}{advice}")
}
