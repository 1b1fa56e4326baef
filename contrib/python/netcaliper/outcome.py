"""Typed form of a result (`netcaliper VERB --json`, format netcaliper.outcome.v2).

Written by contrib/python/generate from schema/outcome.v2.json: change the schema's types, not this file. Durations are in ns, sizes
in bytes and rates in bits per second unless a name or a description says otherwise. A member that a document does not have is None
or empty; members that later versions add are left out.
"""

import dataclasses
import typing
from typing import Any, Dict, List, Optional


@dataclasses.dataclass
class Accepted:
    """A server's grant."""

    changes: List["Change"] = dataclasses.field(default_factory=list)
    """Its reductions."""

    others: Optional[int] = None
    """Other runs' sessions on the server at that moment."""

    session: Optional[int] = None
    """The session's number on the server."""


@dataclasses.dataclass
class Baseline:
    """Local baseline: round trips of the same messages within this host, over its loopback interface, just before the phase,
    less the remote end's time. A measurement's round trips contain as much of this host, and the rest is the path's and the
    remote end's.
    """

    apart: Optional[bool] = None
    """True if the remote end spun on a core of its own; else its wake-up is in the figure, too."""

    rtt_ns: Optional["Spectrum"] = None
    """From the actual send until the echo was whole, without the remote end's time, ns."""


@dataclasses.dataclass
class Begin:
    """The start of a run."""

    command: List[str] = dataclasses.field(default_factory=list)
    """The command line, word by word."""

    host: Optional["HostSnapshot"] = None
    """The host that ran it."""

    limits: Optional["ServerLimits"] = None
    """A server's limits of its clients, where there are any."""

    placement: Optional[str] = None
    """Placement of the workers: `spread`, or the cores they were pinned to."""

    protocol: Optional[str] = None
    """The protocol, as `--protocol` names it; empty when it is not on record."""

    run: Optional[str] = None
    """Identifies the run on both ends."""

    schema: Optional[str] = None
    """The version of the documents that the run writes; empty in journals of the builds that did not record it."""

    started: Optional[int] = None
    """Wall clock at the start, ns since 1970-01-01T00:00:00Z."""

    targets: List[str] = dataclasses.field(default_factory=list)
    """The names or addresses given."""

    verb: Optional[str] = None
    """The question or command: `tcp`, `connect`, `serve`, `demo`."""

    version: Optional[str] = None
    """Version of the netcaliper that measured."""

    workers: Optional[int] = None
    """Worker threads."""


@dataclasses.dataclass
class Burst:
    """`count` sends, then a pause."""

    count: Optional[int] = None
    """Sends in a burst."""

    delay_ns: Optional[int] = None
    """Pause after it, ns."""


@dataclasses.dataclass
class Capacity:
    """Result of a capacity test: the maximum IP-layer capacity (RFC 9097) of one direction. The capacity is the rate of IP
    packets in the best sub-interval.
    """

    best: Optional[int] = None
    """The best sub-interval, by its place in the list, from 1."""

    connections: Optional[int] = None
    """Connections that took part."""

    ip_bps: Optional[float] = None
    """Rate of IP packets in the best sub-interval, headers included, bits/s: the capacity."""

    link_bps: Optional[float] = None
    """Rate of IP packets and the lower layers' overhead in the best sub-interval, bits/s."""

    mean_bps: Optional[float] = None
    """Mean rate of IP packets over the sub-intervals, bits/s."""

    modes: Optional[List[Any]] = None
    """Best sub-interval of each mode, by its place in the list, where the test is split."""

    most_bps: Optional[float] = None
    """The highest rate of IP packets that the test could have offered, bits/s."""

    overhead: Optional[int] = None
    """Octets of that overhead per packet."""

    payload_bps: Optional[float] = None
    """Rate of UDP payload in the best sub-interval, bits/s."""

    round_trip_min_ms: Optional[int] = None
    """Shortest round trip, ms; null without a sample."""

    sub_intervals: List["SubInterval"] = dataclasses.field(default_factory=list)
    """The sub-intervals in order."""

    upstream: Optional[bool] = None
    """The client sent."""


@dataclasses.dataclass
class CapacitySettings:
    """Settings of a capacity test beside the phase's direction, connections, length and sockets."""

    first_mode: Optional[int] = None
    """Sub-intervals at the start that have a maximum of their own; 0 is no split."""

    jumbo: Optional[bool] = None
    """Datagrams may be longer than a packet of Ethernet, above 1 Gbit/s."""

    overhead: Optional[int] = None
    """Octets of the lower layers of each packet, which the rate of the link counts."""

    row: Optional[int] = None
    """Only row of the table of rates, or first one with `start`; null searches from row 0."""

    search: Optional["SearchSettings"] = None
    """Rate control."""

    start: Optional[bool] = None
    """The row is the first of a search."""

    sub_interval_ms: Optional[int] = None
    """Length of a sub-interval, ms."""

    suppressed: Optional[int] = None
    """Sub-intervals at the start whose rate is not adjusted."""

    traditional: Optional[bool] = None
    """Datagrams fill packets of 1,500 bytes."""

    trial_ms: Optional[int] = None
    """Time from one report to the next, ms."""


@dataclasses.dataclass
class CauseCount:
    """Number of connections that failed for one reason."""

    class_: Optional[str] = dataclasses.field(default=None, metadata={"json": "class"})
    """Class."""

    count: Optional[int] = None
    """The number."""

    first: Optional[str] = None
    """The first such failure in full."""

    text: Optional[str] = None
    """The reason, without particulars."""


@dataclasses.dataclass
class Caveat:
    """A reason not to take a figure at face value, and what to do about it."""

    advice: Optional[str] = None
    """One sentence: what to do."""

    code: Optional[str] = None
    """A stable name for scripts, in kebab case."""

    level: Optional[str] = None
    """Its gravity."""

    text: Optional[str] = None
    """One sentence: the observation and its meaning for the figure."""


@dataclasses.dataclass
class CgroupLimits:
    """Limits of a control group; null is no limit."""

    cpus: Optional[float] = None
    """CPU time for each second, s."""

    memory: Optional[int] = None
    """Memory, bytes."""

    tasks: Optional[int] = None
    """Processes and threads."""


@dataclasses.dataclass
class Change:
    """A difference between the requested value and the server's."""

    asked: Optional[str] = None
    """As asked."""

    given: Optional[str] = None
    """As given."""

    what: Optional[str] = None
    """The setting."""

    why: Optional[str] = None
    """The server's reason."""


@dataclasses.dataclass
class ClockFound:
    """Result of comparing two clocks over a path."""

    bound_ns: Optional[int] = None
    """Bound on the error of `offset_ns`, ns."""

    exchanges: Optional[int] = None
    """Exchanges of stamps before, during and after the run."""

    offset_ns: Optional[int] = None
    """The other clock minus this one at the end, ns; the middle of the possible range."""

    round_trip_ns: Optional[int] = None
    """Smallest round trip of the exchanges, ns."""

    skew_ppm: List[Any] = dataclasses.field(default_factory=list)
    """Skew of the other clock, lowest and highest possible, parts per million; above 0 it is faster."""

    stepped: Optional[bool] = None
    """A step of a clock was seen: it moved by more than any drift explains."""

    wandered: Optional[bool] = None
    """The rate of a clock changed by more than the bound allows for, or a clock was stepped by little; absent in documents of
    earlier builds.
    """


@dataclasses.dataclass
class ConnectionRecord:
    """One connection, from open to end."""

    connect_ns: Optional[int] = None
    """Time to connect, ns; null on the accepting side and when it never connected."""

    duration_ns: Optional[int] = None
    """Time from established to end, ns."""

    ended_ns: Optional[int] = None
    """When it ended, ns since the phase's start."""

    error: Optional[str] = None
    """The error in words; null without one."""

    failure: Any = None
    """The error as class and number, for programs; null without one."""

    frames: Optional["Frames"] = None
    """Frames received; null when the connection is no media stream."""

    id: Optional[str] = None
    """Identifier of the connection at both ends; nil when it failed before the identifier was exchanged."""

    local: Optional[str] = None
    """Local address and port; null when there was none."""

    remote: Optional[str] = None
    """The peer's address and port."""

    result: Optional[str] = None
    """Its ending."""

    rx_bytes: Optional[int] = None
    """Payload bytes received."""

    tcp: Optional["TcpInfo"] = None
    """TCP_INFO at its end."""

    tx_bytes: Optional[int] = None
    """Payload bytes sent."""


@dataclasses.dataclass
class CpuUse:
    """CPU time spent during a run, seconds."""

    available_s: Optional[float] = None
    """The run's length times the number of CPUs, s."""

    busiest: Optional[float] = None
    """The busiest CPU's share of the run, 0 to 1."""

    machine_s: Optional[float] = None
    """By the whole machine: user, system, interrupts and softirqs (from /proc/stat), s."""

    softirq_s: Optional[float] = None
    """Softirq part of `machine_s`, s."""

    steal_s: Optional[float] = None
    """Time stolen by the hypervisor, s."""

    system_s: Optional[float] = None
    """By this process in the kernel, s."""

    user_s: Optional[float] = None
    """By this process in user mode, s."""

    wall_s: Optional[float] = None
    """The run's length, s; 0 when unknown."""


@dataclasses.dataclass
class Curve:
    """A line or the outline of a histogram."""

    note: Optional[str] = None
    """A note on the plot."""

    points: List[List[Any]] = dataclasses.field(default_factory=list)
    """Places and values; null is a gap."""

    steps: Optional[bool] = None
    """True if a value holds until the next one."""

    title: Optional[str] = None
    """The title of the plot, which other settings' plots share."""

    x: List[Any] = dataclasses.field(default_factory=list)
    """The quantity of the x axis, and its unit."""

    y: List[Any] = dataclasses.field(default_factory=list)
    """The quantity of the y axis, and its unit."""


@dataclasses.dataclass
class DelayAt:
    """One-way delay of packets with one number, over the repetitions."""

    mean_ns: Optional[float] = None
    """Mean delay of the packets, ns."""

    number: Optional[int] = None
    """Number in the train, from 0."""

    received: Optional[int] = None
    """Number of packets that arrived."""


@dataclasses.dataclass
class DelayRange:
    """Summary of delays without a distribution, ns."""

    max: Optional[int] = None
    """Largest."""

    mean: Optional[float] = None
    """Arithmetic mean."""

    min: Optional[int] = None
    """Smallest; null where it is unknown, too."""


@dataclasses.dataclass
class DelayVariation:
    """Least, mean and most of a delay above its minimum, ms."""

    max_ms: Optional[int] = None
    """The most."""

    mean_ms: Optional[int] = None
    """The mean, rounded."""

    min_ms: Optional[int] = None
    """The least."""


@dataclasses.dataclass
class Direction:
    """One direction of a phase."""

    confirmed: Optional[bool] = None
    """True if the received figures are the receiver's own; otherwise they repeat the sender's."""

    goodput_bps: Optional[float] = None
    """Goodput: the receiver's rate, bits/s."""

    per_interval: Optional["Spread"] = None
    """Goodput over the full intervals after the omitted start, bits/s; of a server's life over the latest of them, which were
    not joined.
    """

    received_bytes: Optional[int] = None
    """Payload bytes the receiver got; the result."""

    sent_bps: Optional[float] = None
    """Sender's rate, bits/s."""

    sent_bytes: Optional[int] = None
    """Payload bytes the sender's kernel accepted; 0 when the sender's count is not known."""

    unknown: List[str] = dataclasses.field(default_factory=list)
    """Unknown counts of the sender; their fields are 0. The arrivals are unknown unless `confirmed`."""


@dataclasses.dataclass
class DistSummary:
    """Summary of a distribution. The unit is that of the recorded values."""

    buckets: List[List[Any]] = dataclasses.field(default_factory=list)
    """`[upper bound, count]` in rising order, about ten to a decade; counts add up to `count`."""

    count: Optional[int] = None
    """Number of values."""

    max: Optional[int] = None
    """Largest value."""

    mean: Optional[float] = None
    """Arithmetic mean."""

    min: Optional[int] = None
    """Smallest value."""

    p50: Optional[int] = None
    """Median."""

    p90: Optional[int] = None
    """90th percentile."""

    p99: Optional[int] = None
    """99th percentile."""

    p999: Optional[int] = None
    """99.9th percentile."""

    sd: Optional[float] = None
    """Standard deviation of the population."""


@dataclasses.dataclass
class Echoes:
    """Returned packets of one setting's trains, over its repetitions. Both ways together: nothing here says which of them was
    slow.
    """

    back_bps: Optional["Spread"] = None
    """Rate of its trains on their return, bits/s of UDP payload: bytes after the first packet, over the time since it."""

    frame_ns: Optional["Spread"] = None
    """Time from the first send to the last return, for each packet that was returned, ns."""

    held_ns: Optional["DistSummary"] = None
    """Time of the packets at the remote end, ns."""

    lost_back: Optional[int] = None
    """Packets that arrived there and did not return."""

    lost_there: Optional[int] = None
    """Packets that did not get there."""

    path_ns: Optional["DistSummary"] = None
    """Time there and back without `held_ns`, ns."""

    returned: Optional[int] = None
    """Packets that were back, each counted once."""

    round_trip_ns: Optional["DistSummary"] = None
    """Time there and back, ns."""

    two_way_bps: Optional["Spread"] = None
    """UDP payload moved both ways, over the time from the first send to the last return, of its trains, bits/s."""


@dataclasses.dataclass
class EcnBytes:
    """Bytes of payload by the codepoint of their packets. Retransmissions are Not-ECT, with classic ECN."""

    ce: Optional[int] = None
    """With CE."""

    ect0: Optional[int] = None
    """With ECT(0)."""

    ect1: Optional[int] = None
    """With ECT(1)."""


@dataclasses.dataclass
class EcnPairs:
    """Datagrams in pairs, at their receiver."""

    both_lost: Optional[int] = None
    """Pairs of which both datagrams were lost."""

    sides: List["PairSide"] = dataclasses.field(default_factory=list)
    """The datagrams with the first codepoint, and with the second."""


@dataclasses.dataclass
class Effective:
    """Settings as the kernel really applied them, read back from the first connection; null where it reports none."""

    congestion: Optional[str] = None
    """`TCP_CONGESTION`."""

    mss: Optional[int] = None
    """`TCP_MAXSEG`, bytes."""

    nodelay: Optional[bool] = None
    """`TCP_NODELAY`: Nagle's algorithm is off."""

    rcvbuf: Optional[int] = None
    """`SO_RCVBUF`, bytes, as the kernel counts."""

    sndbuf: Optional[int] = None
    """`SO_SNDBUF`, bytes, as the kernel counts (Linux: twice the requested size)."""

    tos: Optional[int] = None
    """Traffic class octet: DSCP and ECN."""

    ttl: Optional[int] = None
    """Time to live or hop limit."""


@dataclasses.dataclass
class Extra:
    """A result or setting that only one protocol has: a value of JSON that its crate writes and reads. All other code passes it
    on.
    """

    protocol: Optional[str] = None
    """The protocol, as `--protocol` names it."""

    shown: Optional["Shown"] = None
    """With a result: what outputs show of it."""

    value: Any = None
    """The value, as the protocol writes it: that of `udpmon` is described by `schema/udpmon.v1.json`. `null` where there was no
    room.
    """


@dataclasses.dataclass
class FlowRow:
    """A flow of datagrams."""

    down: Optional["FlowWay"] = None
    """Server to client."""

    flow: Optional[int] = None
    """Its number, from 0."""

    local: Optional[str] = None
    """The client's address."""

    remote: Optional[str] = None
    """The server's address."""

    up: Optional["FlowWay"] = None
    """Client to server, by the server's report."""


@dataclasses.dataclass
class FlowSums:
    """One end's sums over a flow, as a sender and as a receiver."""

    counts: Optional["Packets"] = None
    """Outcomes of its datagrams."""

    delay_max_ns: Optional[int] = None
    """Largest one-way delay, ns."""

    delay_min_ns: Optional[int] = None
    """Smallest one-way delay, ns."""

    delay_sum_ns: Optional[int] = None
    """Sum of one-way delays, ns."""

    delays: Optional[int] = None
    """Datagrams with a delay."""

    marks: Optional["IpFields"] = None
    """IP fields of received datagrams."""


@dataclasses.dataclass
class FlowWay:
    """One direction of a flow."""

    got: Optional["FlowSums"] = None
    """Figures of its receiver."""

    lossy: Optional[bool] = None
    """True if it lost more than the others, by more than chance."""

    sent: Optional[int] = None
    """Datagrams sent; null without the sender's report."""

    slow: Optional[bool] = None
    """True if it was slower than the others."""


@dataclasses.dataclass
class FrameTime:
    """A frame, or some that followed each other."""

    at_ns: Optional[int] = None
    """Arrival of the last of them, ns since the first frame, by the receiver's clock."""

    flight_ns: Optional[int] = None
    """The longest time in flight among them, ns more than that of the first frame: between two clocks no more can be said."""

    frames: Optional[int] = None
    """Number of frames in the row."""

    jitter_ns: Optional[float] = None
    """By how much times in flight differed from frame to frame, ns, in the mean."""

    most_ns: Optional[float] = None
    """By how much times in flight differed from frame to frame at most, ns."""


@dataclasses.dataclass
class FrameTimes:
    """Whole frames of one stream, the first of the phase."""

    frames: Optional[int] = None
    """Number of whole frames."""

    rows: List["FrameTime"] = dataclasses.field(default_factory=list)
    """The rows in order: one per frame or, of long streams, per 2, 4, 8 … frames that followed each other."""


@dataclasses.dataclass
class Frames:
    """Frames as the receiver of a media stream judged them when they were due to be shown (ctsTraffic's renderer)."""

    completed: Optional[int] = None
    """Frames of which all bytes had arrived."""

    dropped: Optional[int] = None
    """Frames of which bytes were missing."""

    errors: Optional[int] = None
    """Datagrams of no frame that was waited for: too late, too early, or beyond the last."""

    repeated: Optional[int] = None
    """Frames of which more bytes had arrived than they have."""


@dataclasses.dataclass
class Framing:
    """Bytes beside payload (identifiers, goodbyes) of protocols whose originals count them in their totals."""

    rx_bytes: Optional[int] = None
    """Bytes received beside payload."""

    tx_bytes: Optional[int] = None
    """Bytes sent beside payload."""


@dataclasses.dataclass
class HostCounters:
    """Changes of drop and softirq counters during a run; unchanged ones are left out."""

    moved: Dict[str, int] = dataclasses.field(default_factory=dict)
    """Name to difference: `TcpExt.ListenDrops`, `softnet.dropped`, `eth0.rx_dropped`, …."""


@dataclasses.dataclass
class HostSnapshot:
    """A host as it stood at the start of a run."""

    allowance: Optional["CgroupLimits"] = None
    """Limits of the control group of the process; absent without any."""

    clock_error_ns: Optional[int] = None
    """The kernel's bound on the wall clock's error, ns."""

    clock_synced: Optional[bool] = None
    """True if the kernel says that the wall clock is disciplined."""

    congestion: Optional[str] = None
    """The system's default congestion control."""

    cpu: Optional[str] = None
    """CPU model."""

    cpus: Optional[int] = None
    """Logical CPUs the process may run on."""

    kernel: Optional[str] = None
    """Kernel name and release."""

    memory: Optional[int] = None
    """Memory, bytes."""

    name: Optional[str] = None
    """Host name."""

    nic: Optional["NicSnapshot"] = None
    """The interface that carries the run; null when not known."""

    sysctl: Dict[str, str] = dataclasses.field(default_factory=dict)
    """Kernel settings that decide TCP results, name to value (`net.ipv4.tcp_rmem`, `net.core.rmem_max`, …)."""


@dataclasses.dataclass
class Interval:
    """One interval, both ends side by side."""

    completed: Optional[int] = None
    """Connections completed or stopped in good order since the start."""

    data_errors: Optional[int] = None
    """Data and protocol errors since the start."""

    end_ns: Optional[int] = None
    """End, ns since the phase's start."""

    frames: Optional["Frames"] = None
    """Frames received in this interval; null when no stream is measured."""

    framing: Optional["Framing"] = None
    """Bytes beside payload, where the original of a legacy protocol counts them, too."""

    in_flight: Optional[int] = None
    """Connections open at its end."""

    index: Optional[int] = None
    """Number, from 0."""

    local: Optional["Traffic"] = None
    """Payload that this end counted."""

    network_errors: Optional[int] = None
    """Network errors since the start."""

    omitted: Optional[bool] = None
    """True if it lies in the omitted start."""

    opened: Optional[int] = None
    """Connections opened in this interval."""

    packets: Optional["PacketReport"] = None
    """Counts and delays of datagrams at this end in this interval, when they are counted."""

    pings: Optional["PingInterval"] = None
    """Round trips that ended in this interval; null when they are not measured."""

    remote: Optional["Traffic"] = None
    """Payload that the remote ends counted, summed; null when no report arrived."""

    remote_packets: Optional["PacketReport"] = None
    """Counts and delays of datagrams at all remote ends together; absent when no report arrived."""

    retransmits: Optional[int] = None
    """Segments retransmitted by this end in this interval, according to samples."""

    samples: List["Sample"] = dataclasses.field(default_factory=list)
    """TCP_INFO of up to 64 open connections at its end."""

    start_ns: Optional[int] = None
    """Start, ns since the phase's start."""

    unknown: List[str] = dataclasses.field(default_factory=list)
    """Counts of `local` that are not known; their fields are 0."""


@dataclasses.dataclass
class IpFields:
    """IP fields of received datagrams. The datagrams of a merged run have one traffic class."""

    dscp: Optional[List[Any]] = None
    """Smallest and largest DSCP."""

    ecn: List[int] = dataclasses.field(default_factory=list)
    """Datagrams by ECN field, 0 to 3: not capable, ECT(1), ECT(0), congestion experienced."""

    ttl: Optional[List[Any]] = None
    """Smallest and largest time to live or hop limit, where the kernel reports it."""


@dataclasses.dataclass
class Marking:
    """Marking of the packets of one direction."""

    arrived: Optional["IpFields"] = None
    """IP fields as the packets arrived; of TCP the DSCP alone."""

    ce_percent: Optional[float] = None
    """Percent of the arrived packets with CE; null where none is counted."""

    ecn_changed: Optional[bool] = None
    """True if codepoints other than CE changed on the way."""

    findings: List[str] = dataclasses.field(default_factory=list)
    """Changes of the codepoints on the way, in words."""

    loses_more: Optional[str] = None
    """The codepoint that was lost more often than the other, in words."""

    loss_p: Optional[float] = None
    """Of datagrams in pairs, the probability that the losses of both codepoints would be as unequal if losses did not depend on
    the codepoint.
    """

    sent_dscp: Optional[int] = None
    """DSCP of the sent packets, where it is known."""

    sent_ecn: List[str] = dataclasses.field(default_factory=list)
    """ECN codepoints of the sent packets, where they are known: two of datagrams in pairs."""

    tcp: Optional["TcpEcn"] = None
    """ECN of the receiving end's TCP connections."""

    to: Optional[str] = None
    """The receiving end."""

    up: Optional[bool] = None
    """True for packets to the server."""


@dataclasses.dataclass
class Media:
    """The streamed media. Sizes count whole datagrams, protocol headers of the measurement included, IP and UDP excluded."""

    datagram: Optional[int] = None
    """Most bytes in one datagram."""

    depth_frames: Optional[int] = None
    """Frames that the receiver holds before it shows the first: the buffer depth."""

    frame_rate: Optional[int] = None
    """Frames per second."""

    frame_size: Optional[int] = None
    """Bytes of a frame, in all its datagrams together."""

    frames: Optional[int] = None
    """Frames in the stream."""

    rate_bps: Optional[int] = None
    """Rate asked for, bits/s."""

    spread: Optional[bool] = None
    """The datagrams of a frame leave evenly over its time, instead of back to back."""


@dataclasses.dataclass
class Moments:
    """Count, sum and sum of squares: enough for the mean and for Jain's index, and mergeable."""

    n: Optional[int] = None
    """Number of values."""

    squares: Optional[float] = None
    """Sum of the squared values."""

    sum: Optional[float] = None
    """Sum of the values, bytes/s for rates."""


@dataclasses.dataclass
class MtuFound:
    """Results of one direction. Sizes are of IP packets, bytes."""

    mtu: Optional[int] = None
    """The largest packet that arrived."""

    told: Optional[bool] = None
    """True if the sender's own system or a router refused that packet as too big. Otherwise it vanished."""

    too_big: Optional[int] = None
    """The smallest packet that did not arrive; null when the search ended before one."""


@dataclasses.dataclass
class NicSnapshot:
    """A network interface."""

    driver: Optional[str] = None
    """Driver, if the kernel reports it."""

    hardware_stamps: Optional[bool] = None
    """True if the card could stamp packets both ways."""

    loopback: Optional[bool] = None
    """True for the loopback interface."""

    mtu: Optional[int] = None
    """MTU, bytes."""

    name: Optional[str] = None
    """Name."""

    offloads: List[str] = dataclasses.field(default_factory=list)
    """Offloads that are on (`tso`, `gso`, `gro`, `rx-checksum`, …)."""

    phc: Optional[int] = None
    """The number of the card's PTP clock (`/dev/ptpN`), if it has one."""

    qdisc: Optional[str] = None
    """Root queueing discipline."""

    speed_mbit: Optional[int] = None
    """Link speed, Mbit/s; null for virtual links."""


@dataclasses.dataclass
class OwnTraffic:
    """Control messages and comparisons of clocks between set-up and end, both ways, as the client saw them."""

    datagram_bytes: Optional[int] = None
    """Their bytes, without headers."""

    datagrams: Optional[int] = None
    """Datagrams that compare clocks."""

    message_bytes: Optional[int] = None
    """Their bytes, without headers."""

    messages: Optional[int] = None
    """Control messages."""


@dataclasses.dataclass
class PacketReport:
    """Counts of one end as a sender and as a receiver of datagrams. Delays are one way unless the method says otherwise, and
    delays between different hosts are no more certain than `clock_bound_ns`.
    """

    before_sent: Optional[int] = None
    """Datagrams that seem to have arrived before they were sent: a clock was wrong. Their delay was taken for 0."""

    before_sent_ns: Optional[int] = None
    """By how much datagrams seem to have arrived before they were sent, at most, ns."""

    blocked_ns: Optional[int] = None
    """Time that sends waited because the socket was full, ns; of several flows together."""

    card_bound_ns: Optional[int] = None
    """Bound on the error of the card's receive stamps from the card's clock, ns; the worst. Part of `clock_bound_ns`."""

    card_refused: Optional[int] = None
    """Stamps of the card that could not be true, being later than the kernel's or far too early; the kernel's were taken in
    their place.
    """

    card_sent: Optional[int] = None
    """Transmit stamps behind `stack_ns` that are the network card's."""

    card_sent_bound_ns: Optional[int] = None
    """Bound on the error of the card's transmit stamps from the card's clock, ns; the worst."""

    card_stamped: Optional[int] = None
    """Datagrams whose arrival was stamped by the network card; none of `kernel_stamped`."""

    card_unplaced: Optional[int] = None
    """Stamps of the card without a meaning because its clock could not be read; the kernel's were taken in their place."""

    clock: Optional[str] = None
    """Comparison of the two clocks."""

    clock_bound_ns: Optional[int] = None
    """Error bound of delays because two clocks were compared, ns; the worst. null when no delay was recorded."""

    clock_found: Optional["ClockFound"] = None
    """Result of comparing the two clocks over the path, where this end did it; of several flows the one with the longest round
    trip. Over a phase only.
    """

    counts: Optional["Packets"] = None
    """Outcomes of the datagrams."""

    damaged: Optional[int] = None
    """Datagrams that the kernel dropped for a wrong checksum, having been damaged on the way; part of `counts.lost`. Only over a
    whole phase.
    """

    delay_ns: Optional["DistSummary"] = None
    """Delay from the actual send, ns: one way, or there and back, as the method says."""

    delay_range_ns: Optional["DelayRange"] = None
    """Extremes and mean of delays whose distribution another program did not report, ns."""

    intended_ns: Optional["DistSummary"] = None
    """Delay from the intended send, ns: the delay that an application with this schedule would have seen."""

    ipdv_ns: Optional["DistSummary"] = None
    """Delay variation between datagrams sent one after the other (RFC 5481 §4.1), ns without sign; not of merged runs."""

    jitter_max_ns: Optional[float] = None
    """Jitter of the interval with the largest, ns. Over a phase only."""

    jitter_ns: Optional[float] = None
    """RFC 3550 jitter, ns: the mean of the estimates after each datagram of the interval or phase that arrived by itself; of
    other programs the value that they report, usually the last estimate.
    """

    kernel_stamped: Optional[int] = None
    """Datagrams whose arrival was stamped by the kernel; that of the others was read after the receive call."""

    late_ns: Optional["DistSummary"] = None
    """Lateness of sends, ns."""

    longest_loss: Optional[int] = None
    """The longest run of lost datagrams. In an interval, numbers that had not arrived when a higher one did, and no more than it
    lost.
    """

    loss_bursts: Optional[int] = None
    """Runs of consecutive lost datagrams. Only over a whole phase."""

    marks: Optional["IpFields"] = None
    """IP fields of received datagrams."""

    max_extent: Optional[int] = None
    """Largest reordering extent (RFC 4737 §4.2), datagrams."""

    pairs: Optional["EcnPairs"] = None
    """Datagrams that were sent in pairs, one with each of two ECN codepoints."""

    stack_ns: Optional["DistSummary"] = None
    """Time of datagrams in the sender's system after their actual send, by the transmit stamps of the kernel or the network
    card, ns; over the datagrams with such a stamp.
    """

    unknown: List[str] = dataclasses.field(default_factory=list)
    """Counts that this end does not have; their fields are 0."""


@dataclasses.dataclass
class Packets:
    """Outcomes of datagrams, as one end of a link counts them. Late is not lost, dropped by our own receive buffer is not lost
    by the network, and not sent is not lost.
    """

    corrupt: Optional[int] = None
    """Datagrams whose bytes were not those sent; counted nowhere else, because their fields cannot be trusted."""

    dropped: Optional[int] = None
    """Datagrams dropped by our own receive buffer; with merged receiving (GRO) an upper bound. Part of `lost`, too."""

    dropped_merged: Optional[int] = None
    """Part of `dropped` that was merged behind other datagrams: the kernel counts merged runs, so this part is as large as the
    gaps of numbers and the largest run allow.
    """

    duplicated: Optional[int] = None
    """Datagrams received once more."""

    late: Optional[int] = None
    """Datagrams that arrived later than the method waits for them. Late datagrams are counted as received, too."""

    lost: Optional[int] = None
    """Datagrams that have not arrived: a datagram counts as lost once a later one overtakes it, and no longer once it arrives
    after all. In one interval, and only there, the count may therefore be below 0.
    """

    received: Optional[int] = None
    """Datagrams received for the first time, in order or not, late or not, and intact."""

    refused: Optional[int] = None
    """Sends that the kernel refused, and ICMP refusals of datagrams sent earlier."""

    reordered: Optional[int] = None
    """Datagrams that a later one had overtaken (RFC 4737 §4: their number is lower than the highest seen)."""

    sent: Optional[int] = None
    """Datagrams that the kernel accepted from us."""

    unsent: Optional[int] = None
    """Places in the sender's schedule that were given up: it was held up, or the kernel refused the send."""


@dataclasses.dataclass
class PairSide:
    """Datagrams of pairs with one of the two codepoints, at their receiver. `D` is a distribution of times."""

    arrived: List[int] = dataclasses.field(default_factory=list)
    """Received datagrams by ECN field, 0 to 3, as they arrived."""

    delay_ns: Optional["DistSummary"] = None
    """Delay from the actual send, ns."""

    lost: Optional[int] = None
    """Datagrams lost, of pairs both of whose datagrams are accounted for."""

    lost_alone: Optional[int] = None
    """Datagrams lost of pairs whose other datagram arrived."""

    received: Optional[int] = None
    """Datagrams received for the first time."""

    sent: Optional[str] = None
    """The codepoint with which the datagrams were sent."""


@dataclasses.dataclass
class PathMtu:
    """The path's MTU in the tested directions."""

    down: Optional["MtuFound"] = None
    """Server to client."""

    up: Optional["MtuFound"] = None
    """Client to server."""


@dataclasses.dataclass
class Phase:
    """One stretch of measuring under fixed settings. Durations are in ns, sizes in bytes."""

    buffer: Optional["Range"] = None
    """Bytes per send and receive call."""

    burst: Optional["Burst"] = None
    """Sends in bursts; null sends evenly."""

    capacity: Optional["CapacitySettings"] = None
    """Settings of a capacity test, when the capacity is measured."""

    connect_rate: Optional[float] = None
    """New connections per second over all slots; null is as fast as it goes."""

    connect_timeout_ns: Optional[int] = None
    """Longest time that a connect may take, ns."""

    connections: Optional[int] = None
    """Concurrent connections."""

    draw_seed: Optional[int] = None
    """Seed of transfers, rates and buffers that are drawn from ranges: the same seed draws the same ones."""

    duration_ns: Optional[int] = None
    """Length of the run, ns; null when something else ends it."""

    exclusive: Optional[bool] = None
    """True if no other session may run on the server at the same time."""

    extra: Optional["Extra"] = None
    """Settings of one protocol only, in place of probe and trains: its crate checks them."""

    first_worker: Optional[int] = None
    """The worker of either end that has the first connection; the next have the others in turn. Clients draw it, so that many
    with one connection each do not all meet on one worker.
    """

    hold_ns: Optional[int] = None
    """Time for which all connections are kept open together once each has moved its payload, ns; the run ends then."""

    inside_gap_ns: Optional[int] = None
    """Between two exchanges that each connection makes inside its payload, ns; absent makes none."""

    interval_ns: Optional[int] = None
    """Length of an interval, ns."""

    iterations: Optional[int] = None
    """Lives of each connection slot; null replaces connections until the time is up."""

    kind: Optional[str] = None
    """The question."""

    media: Optional["Media"] = None
    """The media stream; null when no stream is measured."""

    omit_ns: Optional[int] = None
    """Part at its start that does not count, ns."""

    pattern: Any = None
    """Which end sends."""

    payload: Optional[str] = None
    """The payload."""

    payload_seed: Optional[int] = None
    """Seed of random payload, where the user chose it."""

    ping: Optional["Ping"] = None
    """Messages of a round-trip measurement; null when no round trips are measured."""

    probe: Optional["Probe"] = None
    """Datagrams of a delay measurement; null when none is made."""

    rate: Optional[int] = None
    """Limit per connection and direction, bits/s."""

    rate_high: Optional[int] = None
    """With a range of rates, its upper end, bits/s: one is drawn for each connection."""

    rate_period_ns: Optional[int] = None
    """The stretch of time over which ctsTraffic's limit is kept, ns; null paces evenly."""

    shutdown: Optional[str] = None
    """End of connections."""

    sockets: Optional["SocketSettings"] = None
    """Socket options."""

    stall_ns: Optional[int] = None
    """Longest time for which a connection may move nothing while it should, ns."""

    throttle: Optional[int] = None
    """Connections that may be connecting at once. A connection of a phase with `hold_ns` counts as connecting until the server
    has confirmed its bytes.
    """

    total_bytes: Optional[int] = None
    """Payload of all connections together after which the run ends, bytes."""

    trace: Optional["Trace"] = None
    """Recorded times between datagrams, repeated over and over, when the sending times follow a trace."""

    train: Optional["Train"] = None
    """The trains that datagrams form, when trains are measured."""

    transfer: Optional[int] = None
    """Payload of one connection, both directions together, bytes; a connection that is done is replaced by another."""

    transfer_high: Optional[int] = None
    """With a range of transfers, its upper end, bytes: one is drawn for each connection. Ends that agree on nothing draw one
    each, which makes failures on purpose.
    """

    verify: Optional[str] = None
    """Receivers' check."""


@dataclasses.dataclass
class Ping:
    """Messages of a round-trip measurement: size, schedule, time-out."""

    busy: Optional[bool] = None
    """True if the ends spin instead of sleeping, the remote end if it is ours and allows it."""

    chunk: Optional[int] = None
    """Most bytes of one send call (one datagram); null sends a message at once."""

    kernel_stamps: Optional[bool] = None
    """True if the kernel stamps messages as they leave and echoes as they arrive; datagrams only."""

    lead_ns: Optional[int] = None
    """From agreeing to the first message of an open loop, ns: time to open the connections."""

    messages: Optional[int] = None
    """Messages of a connection, the warm-up not among them; null goes on until the time is up."""

    samples: Optional[bool] = None
    """True if every message is recorded by itself."""

    schedule: Any = None
    """When messages are sent."""

    size: Optional[int] = None
    """Bytes of a message."""

    stamp: Optional["StampSettings"] = None
    """The form of STAMP packets, when messages are such."""

    timeout_ns: Optional[int] = None
    """Wait for an echo before it is late, ns; over TCP it only ends the wait at the end."""

    transport: Optional[str] = None
    """The transport of the messages."""

    warmup: Optional[int] = None
    """Messages at the start of each connection that do not count."""


@dataclasses.dataclass
class PingCounts:
    """Numbers of messages by their fate. Of the sent ones, each is `received` (late ones among them), `lost`, `damaged`, or was
    still waited for when its connection ended.
    """

    damaged: Optional[int] = None
    """Returned with other bytes, or too short."""

    late: Optional[int] = None
    """Returned whole after the timeout; part of `received`, and in the distributions."""

    lost: Optional[int] = None
    """Did not return; below 0 in an interval in which more returned late than were given up."""

    missed: Optional[int] = None
    """Places in the schedule at which nothing was sent: the sender was held up, or too many were under way."""

    omitted: Optional[int] = None
    """Messages of the warm-up, counted nowhere else."""

    received: Optional[int] = None
    """Returned whole, in time or late."""

    refused: Optional[int] = None
    """Sends that the system refused."""

    repeated: Optional[int] = None
    """Returned again."""

    sent: Optional[int] = None
    """Sent."""


@dataclasses.dataclass
class PingInterval:
    """Round trips of an interval, by the time of the echo. Messages whose time-out passed in it rank above all others."""

    count: Optional[int] = None
    """Round trips, late ones among them."""

    counts: Optional["PingCounts"] = None
    """Outcomes of messages in this interval."""

    marks: Optional["IpFields"] = None
    """IP fields of the echoes, where a class was asked for."""

    max_ns: Optional[int] = None
    """Largest, ns."""

    mean_ns: Optional[float] = None
    """Arithmetic mean, ns."""

    min_ns: Optional[int] = None
    """Smallest, ns."""

    p50_ns: Optional[int] = None
    """Median of the messages that returned or were given up in the interval, ns; null when it falls among those given up."""

    p99_ns: Optional[int] = None
    """99th percentile of the same messages as the median, ns; null when it falls among those given up."""

    path_p50_ns: Optional[int] = None
    """Median without the time that the remote end reports to have spent, ns; absent when it reports none."""

    path_p99_ns: Optional[int] = None
    """99th percentile without it, ns."""

    remote_marks: Optional["IpFields"] = None
    """IP fields of the messages as the remote end received them, where that reports them."""


@dataclasses.dataclass
class PlayoutSummary:
    """Buffer depths that frames of a media stream needed, and the stalls with the depth that was asked for."""

    longest_stall: Optional[int] = None
    """The longest stall, frames."""

    misses: List[List[Any]] = dataclasses.field(default_factory=list)
    """Depth in ns, and how many frames a player that holds so much would have missed."""

    need_ns: Optional["SignedSummary"] = None
    """From when a frame was due to be sent until it was complete, ns: the depth that it needed. Of complete frames; null without
    one.
    """

    never: Optional[int] = None
    """Frames that never became complete: no depth would have helped."""

    stalls: Optional[int] = None
    """Times that the picture stood still with the depth that was asked for."""


@dataclasses.dataclass
class Point:
    """One phase and its results."""

    baseline: Optional["Baseline"] = None
    """Local baseline of the round trips, where it was measured."""

    buffer_delay_percent: Optional[float] = None
    """Buffer delay (RFC 6349), percent by which the mean of the kernel's smoothed round-trip times under load exceeds the
    smallest that it saw.
    """

    capacity: Optional["Capacity"] = None
    """Result of a capacity test, when the capacity is measured."""

    caveats: List["Caveat"] = dataclasses.field(default_factory=list)
    """Reasons not to take its figures at face value."""

    connections: List["ConnectionRecord"] = dataclasses.field(default_factory=list)
    """Ended connections, the first 10,000; all of them are in the connection CSV and the journal."""

    down: Optional["Direction"] = None
    """Server to client; null when nothing was to go that way."""

    extras: List["Extra"] = dataclasses.field(default_factory=list)
    """Results of the protocol's own, the first 2,000 with the first 64 MiB of their values; all of them are in the journal."""

    fairness: Optional[float] = None
    """Jain's fairness index over connections, 0 to 1."""

    flows: List["FlowRow"] = dataclasses.field(default_factory=list)
    """Flows of datagrams one by one, where there are several."""

    frame_times: Optional["FrameTimes"] = None
    """Arrivals of a media stream's frames, where each was reported."""

    intervals: List["Interval"] = dataclasses.field(default_factory=list)
    """The intervals."""

    label: Dict[str, str] = dataclasses.field(default_factory=dict)
    """The settings that a sweep varies, name to value in base units (bytes, connections, bits/s)."""

    local: Optional["Totals"] = None
    """Totals of the local end."""

    local_cpu_s_per_gb: Optional[float] = None
    """CPU seconds of this process per 10^9 payload bytes."""

    marking: List["Marking"] = dataclasses.field(default_factory=list)
    """Marking of packets in each direction, where a class or a codepoint was asked for or arrived."""

    phase: Optional["Phase"] = None
    """The requested phase."""

    reason: Optional[str] = None
    """Why, when not as planned."""

    remote: List["Totals"] = dataclasses.field(default_factory=list)
    """The servers' totals."""

    remote_cpu_s_per_gb: Optional[float] = None
    """CPU seconds of the servers' processes per 10^9 payload bytes."""

    repeat: Optional[int] = None
    """Which repetition, from 1."""

    sessions: List["SessionInfo"] = dataclasses.field(default_factory=list)
    """The servers."""

    started: Optional[int] = None
    """Wall clock when payload might flow, ns since 1970-01-01T00:00:00Z; the times of the phase's intervals and connections
    count from there.
    """

    status: Optional[str] = None
    """Its status at the end."""

    tcp_efficiency_percent: Optional[float] = None
    """TCP efficiency (RFC 6349), percent of bytes that were not retransmissions; both senders together."""

    trains: Optional["Trains"] = None
    """Results of packet trains, when they are measured."""

    up: Optional["Direction"] = None
    """Client to server; null when nothing was to go that way."""


@dataclasses.dataclass
class Probe:
    """Datagrams of a delay measurement. The mean rate is the phase's `rate`: bits/s of UDP payload per flow and direction;
    without one, as fast as it goes.
    """

    clock: Optional[str] = None
    """Method by which the clocks of two hosts are compared; null is by the same host's clock where both ends are on one, else in
    band.
    """

    late_ns: Optional[int] = None
    """A datagram that takes longer counts as late, ns; it is waited for as long at the end."""

    lead_ns: Optional[int] = None
    """From agreeing to the first datagram, ns: time to open the flows and to compare the clocks."""

    nonblock: Optional[bool] = None
    """True if a place in the schedule is given up when the sender cannot keep it, instead of being made up for."""

    paired: Optional[str] = None
    """ECN codepoint of one datagram of each pair, drawn by the seed; the other one has the codepoint of the socket."""

    samples: Optional[bool] = None
    """True if each datagram is reported."""

    seed: Optional[int] = None
    """Seed of random spacing."""

    size: Optional[int] = None
    """UDP payload of a datagram, bytes."""

    spacing: Optional[str] = None
    """Distances between intended sending times."""

    tx_stamps: Optional[bool] = None
    """True if the kernel stamps each datagram's departure, where it is sent by a call of its own."""

    waiting: Optional[str] = None
    """Senders' way of waiting."""


@dataclasses.dataclass
class Quartiles:
    """Median and quartiles, linearly interpolated between order statistics (type 7 of Hyndman and Fan, 1996)."""

    median: Optional[float] = None
    """Median."""

    n: Optional[int] = None
    """Number of values."""

    q1: Optional[float] = None
    """First quartile."""

    q3: Optional[float] = None
    """Third quartile."""


@dataclasses.dataclass
class Range:
    """A size or a range of sizes, both ends included; from a range one is drawn per use."""

    high: Optional[int] = None
    """Largest, bytes."""

    low: Optional[int] = None
    """Smallest, bytes."""


@dataclasses.dataclass
class Reading:
    """A number with its name."""

    key: Optional[str] = None
    """The name in files: the key of a figure where it is one, as in sweep rows."""

    label: Optional[str] = None
    """As people read it."""

    unit: Optional[str] = None
    """The unit of `value`."""

    value: Optional[float] = None
    """The number."""


@dataclasses.dataclass
class Remote:
    """Counts of one remote address."""

    connections: Optional[int] = None
    """Connections that ended."""

    failed: Optional[int] = None
    """Connections that ended in an error of any kind."""

    rx_bytes: Optional[int] = None
    """Payload bytes received from it."""

    time_ns: Optional[int] = None
    """Sum of the connections' durations, ns."""

    tx_bytes: Optional[int] = None
    """Payload bytes sent to it."""


@dataclasses.dataclass
class RoundTrips:
    """Round trips of a phase. Late ones are in the distributions; a lost message is `missing` in each of them, so that
    percentiles are over all sent messages.
    """

    counts: Optional["PingCounts"] = None
    """Outcomes of the messages."""

    intended_ns: Optional["Spectrum"] = None
    """From the intended send, ns; null in a closed loop."""

    kernel_ns: Optional["Spectrum"] = None
    """From the kernel's stamp when a message left until its stamp when the echo arrived, ns, where stamps were asked for."""

    path_ns: Optional["Spectrum"] = None
    """`rtt_ns` without the time that the remote end reports to have spent, ns; null when it reports none."""

    remote_ns: Optional["Spectrum"] = None
    """Time between receiving and sending that the remote end reports, ns."""

    rtt_ns: Optional["Spectrum"] = None
    """From the actual send until the echo was whole, ns; null when no message returned."""

    ways: Optional["Ways"] = None
    """Each way by itself, where the remote end reports when messages arrived and answers left (STAMP)."""


@dataclasses.dataclass
class Sample:
    """One open connection at an instant: its bytes so far and its TCP_INFO."""

    id: Optional[str] = None
    """The connection, by the identifier that both ends know."""

    info: Optional["TcpInfo"] = None
    """TCP_INFO of the connection."""

    rx_bytes: Optional[int] = None
    """Payload bytes that the connection has received."""

    slot: Optional[int] = None
    """The slot of the connection among the concurrent ones."""

    tx_bytes: Optional[int] = None
    """Payload bytes that the connection has sent."""


@dataclasses.dataclass
class SearchSettings:
    """Thresholds and steps of a search, with the defaults of RFC 9097."""

    algorithm: Optional[str] = None
    """The algorithm."""

    bad_reports: Optional[int] = None
    """Bad reports until the search is slow."""

    ce_share: Optional[int] = None
    """Share of datagrams with a congestion mark that makes a report bad, 1/255; 0 is none."""

    fast_rows: Optional[int] = None
    """Rows of a fast step."""

    loss_only: Optional[bool] = None
    """Out-of-order and repeated datagrams are no sequence errors."""

    low_ms: Optional[int] = None
    """Delay variation below which a report is good, ms."""

    one_way: Optional[bool] = None
    """One-way delay variation counts, instead of that of round trips."""

    sequence_errors: Optional[int] = None
    """Missing datagrams, or datagrams out of sequence, of a good report at most."""

    upper_ms: Optional[int] = None
    """Delay variation above which a report is bad, ms."""


@dataclasses.dataclass
class ServerLimits:
    """Limits of a server's clients that are in effect."""

    address_rate_bps: Optional[int] = None
    """Bits/s and direction of one address."""

    bytes: Optional[int] = None
    """Bytes of one session, both directions together."""

    rate_bps: Optional[int] = None
    """Bits/s and direction of one session."""

    time_ns: Optional[int] = None
    """Longest run, ns."""

    total_rate_bps: Optional[int] = None
    """Bits/s and direction of all clients together."""


@dataclasses.dataclass
class SessionInfo:
    """A server, as the client knows it, and its grant."""

    accepted: Optional["Accepted"] = None
    """The grant."""

    address: Optional[str] = None
    """The address that the name resolved to, with the port."""

    authenticated: Optional[bool] = None
    """True if both ends proved to know the pre-shared key."""

    base_rtt_ns: Optional[int] = None
    """Smallest round-trip time of the idle control connection before the load, ns."""

    host: Optional["HostSnapshot"] = None
    """The server's host."""

    placement: Optional[str] = None
    """Placement of the server's workers."""

    same_host: Optional[bool] = None
    """True if the server runs on the client's host, perhaps in another network namespace."""

    target: Optional[str] = None
    """The name given on the command line."""

    udp_rtt_ns: Optional[int] = None
    """Round trip of a UDP datagram to the same port before the load, ns; null without an answer."""

    version: Optional[str] = None
    """Version of the server."""

    workers: Optional[int] = None
    """The server's worker threads."""


@dataclasses.dataclass
class Shown:
    """A result of a protocol's own as all outputs show it. With neither settings nor figures it is kept, and not shown."""

    bad: Optional[bool] = None
    """True if something did not arrive."""

    counts: List["Reading"] = dataclasses.field(default_factory=list)
    """Numbers that stand in the table and nowhere else."""

    curves: List["Curve"] = dataclasses.field(default_factory=list)
    """Curves of the first result of each setting."""

    figures: List["Reading"] = dataclasses.field(default_factory=list)
    """Readings that are also plotted, kept and compared."""

    peer: Optional[str] = None
    """The remote end's address."""

    settings: List["Reading"] = dataclasses.field(default_factory=list)
    """Settings that results of one title differ in on purpose; of a plot's the last one that varies is its x axis."""

    title: Optional[str] = None
    """The title of the table of such results."""


@dataclasses.dataclass
class SignedSummary:
    """Summary of a distribution of values that may be negative."""

    count: Optional[int] = None
    """Number of values."""

    max: Optional[int] = None
    """Largest value."""

    mean: Optional[float] = None
    """Arithmetic mean."""

    min: Optional[int] = None
    """Smallest value."""

    p50: Optional[int] = None
    """Median."""

    p90: Optional[int] = None
    """90th percentile."""

    p99: Optional[int] = None
    """99th percentile."""

    p999: Optional[int] = None
    """99.9th percentile."""


@dataclasses.dataclass
class Slot:
    """One direction of a slot of a sweep over datagrams, over its repetitions."""

    clock_bound_ns: Optional[int] = None
    """Error bound of delays because two clocks were compared, ns; the worst."""

    knee: Optional[bool] = None
    """True at the knee: power is largest, and a slot with more load has less, by more than the spread."""

    power: Optional[float] = None
    """Received rate, bits/s, over the median delay, s."""


@dataclasses.dataclass
class SocketSettings:
    """Socket options, asked of both ends; null leaves the system's default."""

    card_stamps: Optional[bool] = None
    """UDP: stamps of the network card beside the kernel's, where it stamps."""

    congestion: Optional[str] = None
    """`TCP_CONGESTION`."""

    dont_fragment: Optional[bool] = None
    """UDP: set DF and refuse datagrams longer than the interface's MTU, ignoring the cached path MTU (probing), or let every
    router fragment.
    """

    dscp: Optional[int] = None
    """DSCP, 0 to 63."""

    ecn: Optional[str] = None
    """UDP: ECN codepoint. TCP's kernel sets its own."""

    flow_label: Optional[int] = None
    """IPv6 flow label, 0 to 0xfffff; the client's packets only."""

    gro: Optional[bool] = None
    """UDP: several datagrams a receive, merged by the kernel (`UDP_GRO`), where it can. Merged datagrams share one receive
    stamp.
    """

    gso: Optional[bool] = None
    """UDP: several datagrams a send, cut apart by the kernel (`UDP_SEGMENT`), where it can."""

    keepalive_ns: Optional[int] = None
    """`SO_KEEPALIVE` with this idle time, and interval between probes, ns; a second at least."""

    mss: Optional[int] = None
    """`TCP_MAXSEG`, bytes."""

    multipath: Optional[bool] = None
    """True if Multipath TCP is asked for, where both kernels have it."""

    nodelay: Optional[bool] = None
    """`TCP_NODELAY`."""

    pacing: Optional[int] = None
    """`SO_MAX_PACING_RATE`, bits/s of each socket; of UDP kept by the queueing discipline `fq` only."""

    rcvbuf: Optional[int] = None
    """`SO_RCVBUF`, bytes (Linux doubles it). Beyond `net.core.rmem_max` only UDP, where the process may force it."""

    same_host_sndbuf: Optional[bool] = None
    """True if `sndbuf` may be chosen when both ends are on one host (the client's engine knows the best one)."""

    sndbuf: Optional[int] = None
    """`SO_SNDBUF`, bytes (Linux doubles it). Beyond `net.core.wmem_max` only UDP, where the process may force it."""

    stamps: Optional[bool] = None
    """UDP: receive stamps of the kernel, where it gives them."""

    ttl: Optional[int] = None
    """Time to live or hop limit."""

    user_timeout_ns: Optional[int] = None
    """`TCP_USER_TIMEOUT`, ns."""

    whole_segments: Optional[bool] = None
    """True if long TCP sends end where a segment ends. A call then sends as much of the buffer as fills whole segments; the rest
    would travel as a short segment of its own.
    """


@dataclasses.dataclass
class Spectrum:
    """A distribution with all its buckets, three significant digits wide. The unit is that of the recorded values. Percentiles
    of several such distributions are those of their sum (`Spectrum::merge`); they are never averaged.
    """

    count: Optional[int] = None
    """Number of values."""

    counts: List[List[Any]] = dataclasses.field(default_factory=list)
    """`[highest value of the bucket, how many it holds]` in rising order; empty buckets are left out."""

    max: Optional[int] = None
    """Largest value, exact."""

    mean: Optional[float] = None
    """Arithmetic mean, exact."""

    min: Optional[int] = None
    """Smallest value, exact."""

    missing: Optional[int] = None
    """Messages that never returned: they rank above all values (RFC 7679 §4.1 counts a loss as an infinite delay), and are in no
    other figure.
    """

    sd: Optional[float] = None
    """Standard deviation of the population."""


@dataclasses.dataclass
class Spread:
    """Mean, spread and 95 % confidence interval of a handful of independent readings."""

    ci95: Optional[float] = None
    """Half-width of the 95 % confidence interval of the mean (Student's t); 0 with fewer than two readings."""

    max: Optional[float] = None
    """Largest."""

    mean: Optional[float] = None
    """Arithmetic mean."""

    min: Optional[float] = None
    """Smallest."""

    n: Optional[int] = None
    """Number of readings."""

    sd: Optional[float] = None
    """Sample standard deviation (n-1); 0 with fewer than two readings."""


@dataclasses.dataclass
class StampSettings:
    """Settings of STAMP packets (RFC 8762, RFC 8972)."""

    authenticated: Optional[bool] = None
    """Both ends prove to know a key (authenticated mode)."""

    clock_info: Optional[bool] = None
    """Timestamp Information TLV: where the remote end's clock takes its time from."""

    cos: Optional[int] = None
    """Class of Service TLV: the DSCP that answers are to carry."""

    direct: Optional[bool] = None
    """Direct Measurement TLV: the remote end's counts of received and sent packets."""

    follow_up: Optional[bool] = None
    """Follow-Up Telemetry TLV: when the last answer really left the remote end."""

    ptp: Optional[bool] = None
    """Times are seconds and nanoseconds (PTP's truncated format) instead of NTP's."""

    ssid: Optional[int] = None
    """The session's identifier (SSID); 0 is none."""


@dataclasses.dataclass
class SubInterval:
    """A sub-interval of a capacity test, all connections together, as the receiver counted it."""

    delay: Optional["DelayVariation"] = None
    """One-way delay above its minimum; null without a sample."""

    duplicated: Optional[int] = None
    """Repeated datagrams."""

    end_ms: Optional[int] = None
    """Its end since the first report, ms."""

    ip_bps: Optional[float] = None
    """Rate of IP packets, headers included, bits/s."""

    link_bps: Optional[float] = None
    """Rate of IP packets and the lower layers' overhead, bits/s."""

    lost: Optional[int] = None
    """Datagrams missing."""

    marked: Optional[int] = None
    """Datagrams with a congestion mark."""

    payload_bps: Optional[float] = None
    """Rate of UDP payload, bits/s."""

    received: Optional[int] = None
    """Datagrams received."""

    reordered: Optional[int] = None
    """Datagrams that a later one had overtaken."""

    round_trip: Optional["DelayVariation"] = None
    """Round trip above the shortest; null without a sample."""


@dataclasses.dataclass
class SweepRow:
    """A sweep's row: one setting over its repetitions."""

    down_slot: Optional["Slot"] = None
    """Power and knee of datagrams server to client, where they are measured."""

    errors: Optional[int] = None
    """Errors of all kinds over the repetitions."""

    figures: Dict[str, "Spread"] = dataclasses.field(default_factory=dict)
    """Figures over the repetitions that measured something, by their keys (`goodput.up`, `rtt.p99`, `loss.down`, `cpu`, …), in
    base units.
    """

    label: Dict[str, str] = dataclasses.field(default_factory=dict)
    """The setting, name to value in base units."""

    unsupported: List[str] = dataclasses.field(default_factory=list)
    """Keys of percentiles in `figures` beyond which a repetition has no value: such a percentile is the largest value by
    definition. Tables and plots leave these figures out.
    """

    up_slot: Optional["Slot"] = None
    """Power and knee of datagrams client to server, where they are measured."""


@dataclasses.dataclass
class TcpEcn:
    """Sums over connections."""

    accurate: Optional[int] = None
    """Connections that negotiated Accurate ECN; null where no kernel reports it."""

    connections: Optional[int] = None
    """Connections whose kernel reports ECN."""

    delivered: Optional[int] = None
    """Segments delivered on connections that negotiated ECN."""

    delivered_bytes: Optional["EcnBytes"] = None
    """Bytes delivered, by the peer's report; null where no kernel counts them, or where 4 GiB passed between two readings."""

    delivered_ce: Optional[int] = None
    """Segments delivered with an echo of CE."""

    negotiated: Optional[int] = None
    """Connections that negotiated ECN."""

    received_bytes: Optional["EcnBytes"] = None
    """Bytes received; null likewise."""

    received_ce: Optional[int] = None
    """Segments received with CE; null where no kernel counts them."""

    seen: Optional[int] = None
    """Connections on which a packet with ECT or CE arrived."""


@dataclasses.dataclass
class TcpEcnInfo:
    """ECN of one connection at an instant. Counters of bytes are modulo 2^32; absent ones are unknown to the kernel."""

    accurate: Optional[bool] = None
    """True if the handshake negotiated Accurate ECN (Linux 7.0)."""

    delivered: Optional[int] = None
    """Segments delivered to the peer (Linux 4.18)."""

    delivered_bytes: Optional["EcnBytes"] = None
    """Bytes delivered to the peer, by its report; with Accurate ECN only (Linux 6.18)."""

    delivered_ce: Optional[int] = None
    """Segments that the peer acknowledged with an echo of CE; with classic ECN all segments from an echo to its answer."""

    negotiated: Optional[bool] = None
    """True if the handshake negotiated ECN."""

    received_bytes: Optional["EcnBytes"] = None
    """Bytes received (Linux 6.18)."""

    received_ce: Optional[int] = None
    """Segments received with CE (Linux 6.18)."""

    seen: Optional[bool] = None
    """True if a packet with ECT or CE arrived."""


@dataclasses.dataclass
class TcpInfo:
    """The part of the kernel's `struct tcp_info` that a measurement uses. Absent fields (older kernels, other systems) are null;
    times are in microseconds as the kernel gives them.
    """

    app_limited: Optional[bool] = None
    """True if `delivery_rate` was limited by the application."""

    busy_us: Optional[int] = None
    """Time spent with data outstanding, µs."""

    bytes_acked: Optional[int] = None
    """Bytes that the peer has acknowledged; a SYN or FIN is one."""

    bytes_received: Optional[int] = None
    """Bytes received."""

    bytes_retrans: Optional[int] = None
    """Bytes retransmitted."""

    bytes_sent: Optional[int] = None
    """Bytes sent, retransmissions included."""

    cwnd: Optional[int] = None
    """Congestion window, segments."""

    delivery_rate: Optional[int] = None
    """Most recent goodput as the kernel estimates it, bytes/s."""

    ecn: Optional["TcpEcnInfo"] = None
    """ECN, where the kernel reports it; kept where it was negotiated."""

    min_rtt_us: Optional[int] = None
    """Smallest round-trip time seen (within the kernel's window), µs."""

    rcv_rtt_us: Optional[int] = None
    """Receiver's estimate of the sender's round-trip time, µs."""

    reord_seen: Optional[int] = None
    """Events of reordering seen by the sender."""

    retransmits: Optional[int] = None
    """Segments retransmitted over the connection's life."""

    rtt_us: Optional[int] = None
    """Smoothed round-trip time, µs."""

    rttvar_us: Optional[int] = None
    """Variation of the round-trip time, µs."""

    rwnd_limited_us: Optional[int] = None
    """Part of `busy_us` limited by the receiver's window, µs."""

    snd_mss: Optional[int] = None
    """Sending maximum segment size, bytes."""

    snd_wnd: Optional[int] = None
    """The peer's advertised window, bytes."""

    sndbuf_limited_us: Optional[int] = None
    """Part of `busy_us` limited by the send buffer, µs."""

    ssthresh: Optional[int] = None
    """Slow-start threshold, segments; null while it was never set."""


@dataclasses.dataclass
class TcpTotals:
    """Sums over the ended connections' last TCP_INFO, and means over all samples of those still open."""

    busy_us: Optional[int] = None
    """Time with data outstanding, µs."""

    bytes_acked: Optional[int] = None
    """Bytes that the peers have acknowledged, of the connections whose kernel counts them."""

    bytes_retrans: Optional[int] = None
    """Bytes retransmitted."""

    bytes_sent: Optional[int] = None
    """Bytes sent, retransmissions included."""

    connections: Optional[int] = None
    """Connections summed."""

    dscp: Optional[List[Any]] = None
    """Smallest and largest DSCP of the peers' packets, of the connections whose kernel keeps it."""

    ecn: Optional["TcpEcn"] = None
    """ECN of the connections."""

    min_rtt_us: Optional[int] = None
    """Smallest round-trip time, µs; 0 when unknown."""

    retransmits: Optional[int] = None
    """Segments retransmitted."""

    rtt_samples: Optional[int] = None
    """Number of round-trip times in `rtt_sum_us`."""

    rtt_sum_us: Optional[float] = None
    """Sum of sampled smoothed round-trip times, µs."""

    rwnd_limited_us: Optional[int] = None
    """Part of `busy_us` limited by the receiver's window, µs."""

    sndbuf_limited_us: Optional[int] = None
    """Part of `busy_us` limited by the send buffer, µs."""


@dataclasses.dataclass
class Totals:
    """Counts of one end over a phase. Only `traffic` leaves out the omitted start, and payload after the end."""

    causes: List["CauseCount"] = dataclasses.field(default_factory=list)
    """Failures by cause, most frequent first, at most 32."""

    completed: Optional[int] = None
    """Connections that moved all their bytes."""

    connect_ns: Optional["DistSummary"] = None
    """Time to connect, ns."""

    counters: Optional["HostCounters"] = None
    """Counters that moved."""

    cpu: Optional["CpuUse"] = None
    """CPU time."""

    data_errors: Optional[int] = None
    """Data errors."""

    effective: Optional["Effective"] = None
    """Settings as the kernel applied them."""

    frames: Optional["Frames"] = None
    """Frames received; null when no stream is measured."""

    framing: Optional["Framing"] = None
    """Bytes beside payload, where the original of a legacy protocol counts them, too."""

    idle_servers: List[str] = dataclasses.field(default_factory=list)
    """Servers that were named and at which a client whose protocol has no conversation measured nothing."""

    late_ns: Optional["DistSummary"] = None
    """Lateness of paced sends, ns."""

    limit: Optional[str] = None
    """The limit of this server that ended the phase."""

    marks: Optional["IpFields"] = None
    """IP fields of received messages of round trips, where a class was asked for; `packets` has the fields of datagrams on a
    schedule.
    """

    network_errors: Optional[int] = None
    """Network errors."""

    opened: Optional[int] = None
    """Connections established."""

    others: Optional[int] = None
    """Largest number of other runs' sessions seen on this server during the phase."""

    own: Optional["OwnTraffic"] = None
    """Own traffic of the two ends, where a protocol counts it."""

    packets: Optional["PacketReport"] = None
    """Counts and delays of datagrams, late ones included, when they are counted."""

    peak: Optional[int] = None
    """Most connections open at once; of several workers the sum of their own maxima in an interval."""

    pings: Optional["RoundTrips"] = None
    """Round trips; null when they are not measured."""

    playout: Optional["PlayoutSummary"] = None
    """When frames of streams were complete; null when that is not known."""

    protocol_errors: Optional[int] = None
    """Protocol errors."""

    rate: Optional["DistSummary"] = None
    """Rate of ended connections, both directions together, bytes/s."""

    rates: Optional["Moments"] = None
    """The rate of each slot over the life of its ended connections, bytes/s, for Jain's index."""

    receive: Optional[str] = None
    """Way of reading: `compare`, `read`, `discard` (`MSG_TRUNC`); empty when not known."""

    remotes: Dict[str, "Remote"] = dataclasses.field(default_factory=dict)
    """By remote address."""

    stopped: Optional[int] = None
    """Connections ended early, in good order, because the run ended."""

    tcp: Optional["TcpTotals"] = None
    """Sums of TCP_INFO over ended connections."""

    traffic: Optional["Traffic"] = None
    """Payload and the time it took."""

    transfer_ns: Optional["DistSummary"] = None
    """Life of completed connections, ns."""

    unknown: List[str] = dataclasses.field(default_factory=list)
    """Counts that this end does not have; their fields are 0."""

    who: Optional[str] = None
    """The end: the address for a remote one."""


@dataclasses.dataclass
class Trace:
    """Times from one send to the next. After the last one the first follows again."""

    gaps_ns: List[int] = dataclasses.field(default_factory=list)
    """Times from one send to the next, ns."""


@dataclasses.dataclass
class Traffic:
    """Payload in a stretch of time."""

    ns: Optional[int] = None
    """The stretch, ns."""

    rx_bytes: Optional[int] = None
    """Payload bytes received."""

    rx_ns: Optional[int] = None
    """The part of `ns` in which the bytes were to arrive by the sender's schedule and the path's delay, ns, by which their rate
    is divided; absent is all of it.
    """

    tx_bytes: Optional[int] = None
    """Payload bytes sent."""

    tx_ns: Optional[int] = None
    """The part of `ns` in which a schedule had the bytes sent, ns, by which their rate is divided; absent is all of it."""


@dataclasses.dataclass
class Train:
    """Trains of packets, several settings in turn. The size of the packets is the probe's."""

    echo: Optional[bool] = None
    """True if the remote end returns every packet."""

    every_ns: Optional[int] = None
    """From one round, in which each setting has a train, to the next, ns. The trains of a round are spread evenly over it."""

    packets: Optional[int] = None
    """Packets of a train."""

    repeat: Optional[int] = None
    """Trains of each setting."""

    samples: Optional[bool] = None
    """True if each packet is reported."""

    waits_ns: List[int] = dataclasses.field(default_factory=list)
    """The settings: time from the start of a packet to the start of the next, ns; 0 is back to back."""


@dataclasses.dataclass
class TrainReport:
    """Everything about trains in one direction."""

    card_stamped: Optional[int] = None
    """Packets whose arrival was stamped by the network card, none of `kernel_stamped`."""

    kernel_stamped: Optional[int] = None
    """Packets whose arrival was stamped by the kernel."""

    more_troubles: Optional[int] = None
    """Number of further troubles."""

    settings: List["TrainSetting"] = dataclasses.field(default_factory=list)
    """One per setting."""

    trains: List["TrainRow"] = dataclasses.field(default_factory=list)
    """One per train."""

    troubles: List["Trouble"] = dataclasses.field(default_factory=list)
    """Troubled packets, the first 1000."""

    troughs: List["Trough"] = dataclasses.field(default_factory=list)
    """Repetitions in which trains were much slower than usual."""


@dataclasses.dataclass
class TrainRow:
    """One train. Rates are bits/s of UDP payload, durations ns."""

    at_ns: Optional[int] = None
    """When it was to begin, ns after the start."""

    delay_max_ns: Optional[int] = None
    """Largest one-way delay, ns."""

    delay_mean_ns: Optional[float] = None
    """Mean one-way delay, ns."""

    delay_min_ns: Optional[int] = None
    """Smallest one-way delay, ns; below 0 when the clocks say so."""

    dispersion_ns: Optional[float] = None
    """Mean time between arrivals, the dispersion, ns."""

    lost: Optional[int] = None
    """Packets sent that did not arrive."""

    overtaken: Optional[int] = None
    """Packets that others of higher number had overtaken."""

    receive_bps: Optional[float] = None
    """Rate of receiving, bits/s of UDP payload: the packets after the first, over `receive_ns`."""

    receive_ns: Optional[int] = None
    """From the first arrival to the last, ns."""

    received: Optional[int] = None
    """Packets received, each counted once."""

    repeated: Optional[int] = None
    """Packets that arrived again."""

    round: Optional[int] = None
    """Which repetition of its setting, from 0."""

    send_bps: Optional[float] = None
    """Rate of sending, bits/s of UDP payload: the packets after the first, over `send_ns`."""

    send_ns: Optional[int] = None
    """From the first send to the last, ns."""

    sent: Optional[int] = None
    """Packets sent."""

    setting: Optional[int] = None
    """Its setting, from 0."""

    train: Optional[int] = None
    """The train, from 0."""

    unsent: Optional[int] = None
    """Packets that were to be sent and were not."""


@dataclasses.dataclass
class TrainSetting:
    """One setting over its repetitions."""

    before_sent: Optional[int] = None
    """Packets that seem to have arrived before they were sent."""

    by_number: List["DelayAt"] = dataclasses.field(default_factory=list)
    """Delay by number in the train, the first 1000."""

    delay_ns: Optional["DistSummary"] = None
    """One-way delay, ns; below 0 counts as 0."""

    echo: Optional["Echoes"] = None
    """Figures of the returned packets, where the remote end returns them."""

    gap_ns: Optional["DistSummary"] = None
    """Time between arrivals, ns, in order of arrival."""

    lost: Optional[int] = None
    """Packets sent that did not arrive."""

    merged_pairs: Optional[int] = None
    """Pairs whose arrivals had the same stamp: they have no rate."""

    overtaken: Optional[int] = None
    """Packets that others of higher number had overtaken."""

    pair_bps: Optional["Quartiles"] = None
    """Dispersion rates of its pairs, packets sent one after the other that arrived so, bits/s of IP packets."""

    receive_bps: Optional["Spread"] = None
    """Receiving rates of its trains, bits/s of UDP payload."""

    received: Optional[int] = None
    """Packets received, each counted once."""

    repeated: Optional[int] = None
    """Packets that arrived again."""

    send_bps: Optional["Spread"] = None
    """Sending rates of its trains, bits/s of UDP payload."""

    send_gap_ns: Optional["DistSummary"] = None
    """Time between sends, ns."""

    sent: Optional[int] = None
    """Packets sent."""

    setting: Optional[int] = None
    """The setting, from 0."""

    stretched: Optional[bool] = None
    """True if the path stretched the trains: half of them arrived slower than 95 % of the rate they were sent at. An unstretched
    train shows that the path carries its rate, and no more.
    """

    train_bps: Optional["Quartiles"] = None
    """Dispersion rates of its trains, bits/s of IP packets."""

    trains: Optional[int] = None
    """Trains of which something was sent."""

    unsent: Optional[int] = None
    """Packets that were to be sent and were not."""

    wait_ns: Optional[int] = None
    """From the start of a packet to the start of the next, as intended, ns."""


@dataclasses.dataclass
class Trains:
    """Results of trains, which go one way: the phase's."""

    clock_bound_ns: Optional[int] = None
    """Error bound of one-way delays because clocks were compared, two hosts' and that of a network card that stamped packets,
    ns.
    """

    headers: Optional[int] = None
    """Bytes that IP and UDP add to a packet; dispersion rates count them."""

    left_out: Optional[int] = None
    """Arrivals that the receiver had no room to remember."""

    report: Optional["TrainReport"] = None
    """The figures."""

    strays: Optional[int] = None
    """Packets that arrived and belong to none of these trains."""


@dataclasses.dataclass
class Trouble:
    """A packet that something befell."""

    by: Optional[int] = None
    """Number of packets that overtook it, or of its further arrivals; 1 otherwise."""

    intended_ns: Optional[int] = None
    """When it was to be sent, ns after the start."""

    kind: Optional[str] = None
    """Fate of the packet."""

    number: Optional[int] = None
    """The number of the packet in its train, from 0."""

    train: Optional[int] = None
    """The train of the packet, from 0."""


@dataclasses.dataclass
class Trough:
    """A repetition in which trains arrived much slower than usual."""

    at_ns: Optional[int] = None
    """When its first slow train was to begin, ns after the start."""

    common: Optional[bool] = None
    """True if all settings were slow, of several: the cause is then the path's or a host's at that time, not the setting's."""

    round: Optional[int] = None
    """The repetition, from 0."""

    settings: List[int] = dataclasses.field(default_factory=list)
    """Settings that were slow."""


@dataclasses.dataclass
class WayCounts:
    """Outcomes of messages, or of answers, on one way."""

    duplicated: Optional[int] = None
    """Arrived twice at the end of this way."""

    lost: Optional[int] = None
    """Known to have been lost on this way."""

    reordered: Optional[int] = None
    """Overtaken on this way."""


@dataclasses.dataclass
class WayFacts:
    """Facts about both directions besides delays."""

    back: Optional["WayCounts"] = None
    """On the way back."""

    back_marks: Optional["IpFields"] = None
    """IP fields of the answers as they were received."""

    by_wall: Optional[int] = None
    """Delays found by wall clocks that both ends say are disciplined, because that was the better bound; the others were found
    by exchanges of stamps, which no clock has to be right for.
    """

    clock_bound_ns: Optional[int] = None
    """Error bound of the delays of one way because two clocks were compared, ns; the worst."""

    clock_offset_ns: Optional[int] = None
    """The remote end's wall clock minus ours as it was found last, ns."""

    copied: Optional[int] = None
    """Flows whose answers all had our numbers: the remote end copies them, or nothing was lost on the way there."""

    lost_somewhere: Optional[int] = None
    """Lost on an unknown way: the last ones of a flow, and all where the remote end does not number its answers itself."""

    malformed: Optional[int] = None
    """Answers in which the remote end found one of our extensions malformed."""

    numbered: Optional[int] = None
    """Flows whose remote end was seen to number its answers itself."""

    rejected: Optional[int] = None
    """Answers that did not prove to know the key, or are none; they count as not received."""

    remote_clock: Optional[List[int]] = None
    """Source and method of the remote end's clock when receiving, then when sending (STAMP's Timestamp Information; RFC 8972,
    tables 6 and 7), if it reports them.
    """

    remote_counts: Optional[List[Any]] = None
    """Messages that the remote end has received, and answers that it has sent, by its own count (STAMP's Direct Measurement)."""

    remote_error_ns: Optional[int] = None
    """Error bound that the remote end reports for its clock, ns; the worst."""

    remote_synced: Optional[bool] = None
    """True while the remote end reports its clock as disciplined; false if it ever did not."""

    tampered: Optional[int] = None
    """Answers whose extensions differed from what either end sent; none of them was used."""

    there: Optional["WayCounts"] = None
    """On the way there."""

    there_marks: Optional["IpFields"] = None
    """IP fields of the messages as the remote end received them, where it reports them."""

    unnamed: Optional[int] = None
    """Answers without the session's identifier, from a remote end that does not know such."""

    unrecognised: List[int] = dataclasses.field(default_factory=list)
    """Extensions (STAMP's TLVs, by type) that the remote end did not understand."""


@dataclasses.dataclass
class Ways:
    """Round trips taken apart into their two ways, in one interval or in all. `D` is a distribution of times: a `Dist` while
    they are counted, a spectrum in results.
    """

    back_ns: Optional["Spectrum"] = None
    """From the remote end's send until we received, ns; no more certain than `facts.clock_bound_ns` says."""

    facts: Optional["WayFacts"] = None
    """Losses by direction, marks, clocks."""

    left_late_ns: Optional["Spectrum"] = None
    """Delay of answers in the remote end after their own stamps, by its kernel's stamps, ns."""

    there_ns: Optional["Spectrum"] = None
    """From our send until the remote end received, ns; no more certain than `facts.clock_bound_ns` says."""


@dataclasses.dataclass
class Outcome:
    """Result of a run of netcaliper. Durations are in ns, sizes in bytes, rates in bits/s unless a name or a description says
    otherwise. Members may be added to version 2; none is removed or changes its meaning.
    """

    begin: Optional["Begin"] = None
    """Settings and conditions of the run."""

    notices: List[str] = dataclasses.field(default_factory=list)
    """Notices of the run, in order, at most 200; `warning: ` or `error: ` first when they are."""

    path_mtu: Optional["PathMtu"] = None
    """The path's MTU, when it was looked for."""

    points: List["Point"] = dataclasses.field(default_factory=list)
    """One per phase: one, or one per setting and repetition of a sweep."""

    reason: Optional[str] = None
    """Why, when not as planned."""

    schema: Optional[str] = None
    """Name and version of this format."""

    status: Optional[str] = None
    """Its status at the end."""

    sweep: List["SweepRow"] = dataclasses.field(default_factory=list)
    """With a sweep, one row per setting, over its repetitions."""


_HINTS: Dict[type, Dict[str, Any]] = {}


def _convert(hint: Any, value: Any) -> Any:
    """A JSON value as `hint` wants it."""
    if value is None:
        return None
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union:
        return _convert(inner[0], value)
    if origin is list and isinstance(value, list):
        return [_convert(inner[0], one) for one in value]
    if origin is dict and isinstance(value, dict):
        return {name: _convert(inner[1], one) for name, one in value.items()}
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        if hint not in _HINTS:
            _HINTS[hint] = typing.get_type_hints(hint)
        hints = _HINTS[hint]
        names = {field.metadata.get("json", field.name): field.name for field in dataclasses.fields(hint)}
        return hint(**{names[name]: _convert(hints[names[name]], one) for name, one in value.items() if name in names})
    return value


def read(document: Dict[str, Any]) -> Outcome:
    """The document as typed objects."""
    if document.get("schema") != "netcaliper.outcome.v2":
        raise ValueError(f"the document is {document.get('schema')!r}; this package reads netcaliper.outcome.v2")
    return _convert(Outcome, document)
