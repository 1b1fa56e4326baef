//! The usages.

use super::args::Program;

pub(crate) fn usage(program: Program) -> String {
    let own = program.facts().usage;
    format!("Usage: {} -option<parameter> [...]\noptions:\n{own}{COMMON}", program.name())
}

const COMMON: &str = "  -6  IPv6
  -S  socket buffers, bytes
  -a  cores, a hexadecimal mask
  -Q  octet of type of service (DSCP and two bits), hexadecimal
  -v  print more       -V  version        -h  this page
  --save FILE  keep the run, for netcaliper report
  --as-original  the original's arithmetic where ours differs
";

pub(super) const BW_MON: &str = "  -d  the host that runs udpmon_resp        -u  its port [14233]        -U  our own port
  -p  UDP payload of a packet, bytes [64]   -l  packets of a test [2]   -t  seconds, instead of a number of packets
  -w  time from packet to packet, us, one decimal [0]; -e last, -i step of a sweep [0.8]
  -r  rate of payload, Mbit/s, instead of -w
  -g  pause after a burst of -l packets, us; -n bursts [1]
  -H  histograms; -B bin width [1] and -M lower edge [0] of the first, 0.1 us
  -G  [skip:]n  records of n packets        -L  [skip:]n  records of n lost packets
  -N  kernel's receive stamps               -A  n  acknowledge every packet
  -x  more columns                          -q  one line a test
  -P  precedence bits, -T type of service bits, hexadecimal
";

pub(super) const REQ: &str = "  -d  the host that runs udpmon_resp        -u  its port [14233]
  -p  request, bytes [64]                   -l  requests of each size [10]
  -r  response, bytes [1472]; -e last, -i step of a sweep
  -w  pause after a response, us            -H  histogram; -b bin width [1], -m lower edge [0], us
  -P  precedence bits, -T type of service bits, hexadecimal
";

pub(super) const SEND: &str = "  -d  the host that runs udpmon_recv        -u  its port [14233]        -U  our own port
  -p  UDP payload of a packet, bytes [64]   -l  packets [2]             -t  seconds, instead of a number of packets
  -w  time from packet to packet, us        -r  rate of payload, Mbit/s, instead of -w
  -g  pause after a burst of -l packets, us; -n bursts [1]
  -P  precedence bits, -T type of service bits, hexadecimal
";

pub(super) const RECV: &str = "  -u  port [14233]                          -t  seconds it runs [for ever]
  -T  seconds from one line to the next     -H  histograms; -B bin width [1], -M lower edge [0], 0.1 us
  -G  [skip:]n  records of n packets        -L  [skip:]n  records of n lost packets
  -N  kernel's receive stamps               -I  interface whose driver's counters are printed
";

pub(super) const RESP: &str =
    "  -u  port [14233]                          -I  interface whose driver's counters are printed
  -P  precedence bits, -T type of service bits, hexadecimal
";

pub(super) const TCP_MON: &str = "  -d  the host that runs tcpmon_resp        -u  its port [14233]
  -p  message, bytes [10000], at least 144  -l  messages [2]            -t  seconds, instead of a number of messages
  -w  time from message to message, us      -r  rate of payload, Mbit/s, instead of -w
  -g  pause after a burst of -l messages, us; -n bursts [1]
  -i  seconds from a line about what left to the next
  -H  histogram of how long messages took to be sent; -B bin width [1], -M lower edge [0], us
  -G  [skip:]n  the same of n messages, one by one
  -F  largest segment, bytes                -A  core
  -C  CPUs in a table                       -N  interfaces in a table
  -P  precedence bits, -T type of service bits, hexadecimal
";

pub(super) const TCP_RESP: &str = "  -u  port [14233]                          -t  seconds it runs [for ever]
  -F  segments of at most 1460 bytes        -A  core
  -I  interface whose driver's counters are printed; two at most
  -i  seconds from a line about received data to the next, for each connection
  -H  histograms of the times between messages and of reading them; -B bin width [1], -M lower edge [0], us, of the first
  -G  [skip:]n  the same of n messages, one by one; with -v it ends after one connection, as the original
";
