//! Words that are known from iperf3, iperf 2, ping, tc and others, and what does the same here.

/// A word of other programs.
pub(super) struct Habit {
    /// The verb that it follows; `*` any that measures or serves, or none; empty where it stands in
    /// the place of a verb.
    pub(super) verb: &'static str,
    pub(super) words: &'static [&'static str],
    /// The advice; `{word}` stands for the word, `{n}` and `{host}` for the one behind it.
    pub(super) instead: &'static str,
}

/// Of each habit its verb, its words, the advice.
macro_rules! habits {
    ($($verb:literal [$($word:literal)*] $instead:literal;)*) => {
        &[$(Habit { verb: $verb, words: &[$($word),*], instead: $instead },)*]
    };
}

/// The first that fits counts.
pub(super) const HABITS: &[Habit] = habits! {
    // ping's.
    "ping" ["-c" "--count"] "use `-n {n}`";
    "ping" ["-s"] "use `-l {n}` for the size of a message";
    "ping" ["-f"] "use `--flood`";
    "ping" ["-W"] "use `--timeout {n}s`";
    "ping" ["-I"] "use `--bind-dev {n}`, or `-B ADDR`";
    "ping" ["-Q"] "use `--dscp NAME`: a TOS byte divided by 4, or a name such as ef";
    "ping" ["-A"] "use `--flood`: each message waits for the echo of the last";
    "ping" ["-D"] "leave it out; `--samples FILE` has the time of each message";
    // irtt's.
    "delay" ["-d" "--duration"] "use `-t {n}`";
    "delay" ["-o" "--output"] "use `--save {n}`, or `--samples {n}` for each datagram";
    "delay" ["--hmac"] "use `--psk-file FILE`";
    // Where iperf3's choice of UDP or of an end is made already.
    "delay" ["-u" "--udp"] "leave it out; datagrams are sent";
    "stream" ["-u" "--udp"] "leave it out; datagrams are sent";
    "train" ["-u" "--udp"] "leave it out; datagrams are sent";
    "capacity" ["-u" "--udp"] "leave it out; datagrams are sent";
    "capacity" ["-d"] "use `-R`: the server sends";
    "capacity" ["--bidir"] "use `--both`: one direction after the other";
    "serve" ["-s" "--server"] "leave it out; `netcaliper serve` is the server";
    // iperf3's long names.
    "*" ["--bitrate" "--bandwidth"] "use `-b {n}`";
    "*" ["--threads"] "use `-P {n}`";
    "*" ["--length"] "use `-l {n}`";
    "*" ["--set-mss"] "use `-M {n}`";
    "*" ["--duration"] "use `-t {n}`";
    "*" ["--host"] "name the host without an option";
    "*" ["--version4"] "use `-4`";
    "*" ["--version6"] "use `-6`";
    // iperf3's, of both ends.
    "*" ["-c" "--client"] "use `netcaliper tcp {host}`";
    "*" ["-s" "--server"] "use `netcaliper serve`";
    "*" ["-u" "--udp" "udp"] "use `netcaliper delay {host} -b RATE`";
    "*" ["-f" "--format"] "leave it out; rates have their units, and `--json` has bits per second";
    "*" ["-A"] "use `--affinity {n}`, at each end its own";
    "*" ["-F" "--file"] "use `netcaliper iperf3 -F {n}`, which sends and receives files";
    "*" ["-d" "--debug"] "use `-v` for all tables; iperf 2's `-d` is `--bidir`";
    "*" ["-e" "--enhanced"] "use `-v` for all tables";
    "*" ["-I" "--pidfile"] "leave it out; a service manager knows the process (contrib/systemd has a unit)";
    "*" ["--logfile"] "use `--save {n}`, or `netcaliper history`: every run is kept";
    "*" ["--json-stream" "--json-stream-full-output"] "use `--jsonl`";
    "*" ["--forceflush" "--timestamps"] "leave it out; each line is written at once, and `--status-csv FILE` has its time";
    "*" ["--rcv-timeout" "--snd-timeout"] "use `--stall-timeout TIME`";
    // Of its server.
    "*" ["-D" "--daemon"] "leave it out; a service manager runs `netcaliper serve` (contrib/systemd has a unit)";
    "*" ["-1" "--one-off"] "use `netcaliper serve --exit-after N`, which ends after N data connections";
    "*" ["--server-bitrate-limit"] "use `netcaliper serve --max-rate {n}`";
    "*" ["--server-max-duration"] "use `netcaliper serve --max-time {n}s`";
    "*" ["--idle-timeout"] "leave it out; an idle server waits for clients";
    "*" ["--authorized-users-path" "--time-skew-threshold" "--use-pkcs1-padding"]
        "use `netcaliper serve --psk-file FILE`, or `netcaliper iperf3 -s` with iperf3's own options";
    // Of its client.
    "*" ["-k" "--blockcount"] "use `-n BYTES`: the number of blocks times their length";
    "*" ["--cport"] "use `--local-port {n}`";
    "*" ["-N" "--no-delay"] "leave it out; TCP_NODELAY is on (`--nodelay off` turns it off)";
    "*" ["-S" "--tos"] "use `--dscp NAME`: a TOS byte divided by 4, or a name such as ef";
    "*" ["-L" "--flowlabel"] "use `--flow-label {n}`";
    "*" ["-Z" "--zerocopy"] "leave it out; the payload is made once and sent from memory";
    "*" ["--skip-rx-copy"] "use `--verify none`";
    "*" ["-T" "--title" "--extra-data"] "leave it out; `netcaliper history` has each run with its command";
    "*" ["--get-server-output"] "leave it out; the server's figures are part of the result";
    "*" ["--udp-counters-64bit" "--gsro"] "leave it out; it is always on";
    "*" ["--repeating-payload"] "leave it out; `--payload pattern` is the default";
    "*" ["--dont-fragment"] "use `netcaliper delay {host} --df on`";
    "*" ["--fq-rate"] "use `-b {n}`";
    "*" ["--pacing-timer"] "leave it out; sends are paced by their due times";
    "*" ["--cntl-ka"] "leave it out; the ends send heartbeats";
    "*" ["--username" "--rsa-public-key-path"] "use `--psk-file FILE`, or `netcaliper iperf3` with iperf3's own options";
    "*" ["--sctp" "-X" "--xbind" "--nstreams"] "leave it out; SCTP is not measured";
    "*" ["-m" "--mptcp"] "leave it out; MPTCP is not measured";
    // tc's.
    "lab" ["delay" "loss" "rate" "duplicate" "corrupt" "reorder"] "write a condition as an option, `--{word} {n}`";
    "lab" ["limit" "--limit"] "use `--queue {n}p`";
    // iperf 2's.
    "*" ["-y" "--reportstyle"] "use `--status-csv FILE`";
    "*" ["-r" "--tradeoff"] "run it twice, once with `-R`";
    // Programs, and words for a question.
    "" ["iperf" "iperf2" "netperf" "nuttcp" "xfr" "bandwidth" "throughput" "speed" "speedtest" "bw" "upload" "client"
        "test" "goodput"] "use `netcaliper tcp {host}`";
    "" ["download"] "use `netcaliper tcp {host} -R`";
    "" ["latency" "rtt" "mtr"] "use `netcaliper ping {host}`";
    "" ["jitter" "loss" "owd" "owping" "irtt"] "use `netcaliper delay {host}`";
    "" ["bufferbloat" "flent" "crusader" "rrul" "rpm"] "use `netcaliper load {host}`";
    "" ["video" "voip" "call" "media"] "use `netcaliper stream {host}`";
    "" ["capacity" "dispersion"] "use `netcaliper train {host}`";
    "" ["traceroute" "tracert" "tracepath"] "use `mtr {host}`; no question here shows the hops of a path";
    "" ["mtu" "pmtu"] "use `netcaliper delay {host} --path-mtu`";
    "" ["server" "listen" "daemon" "start"] "use `netcaliper serve`";
    "" ["netem" "tc" "impair"] "use `netcaliper lab --delay 10ms --loss 1% -- COMMAND`";
    "" ["list" "ls" "runs" "results"] "use `netcaliper history`";
    "" ["diff"] "use `netcaliper compare RUN RUN`";
    "" ["check" "diagnose" "diagnostics" "preflight"] "use `netcaliper doctor {host}`";
    "" ["version"] "use `netcaliper --version`";
};
