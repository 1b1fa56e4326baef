//! The help.

/// Text of `--help`.
pub(crate) const HELP: &str = "\
Usage: iperf3 [-s|-c host] [options]
       iperf3 [-h|--help] [-v|--version]

netcaliper in the place of iperf3: it speaks its protocol (3.1 to 3.21), takes its options and prints its report.

Server or Client:
  -p, --port      #         server port to listen on/connect to
  -f, --format   [kmgtKMGT] format to report: Kbits, Mbits, Gbits, Tbits
  -i, --interval  #         seconds between periodic throughput reports
  -I, --pidfile file        write the process identifier to a file
  -F, --file name           send a file, or write received payload into one (TCP)
  -A, --affinity n[,m]      core that the process will use, and that the server's streams are to use
  -B, --bind <host>[%<dev>] address (and interface) to bind to
  --bind-dev <dev>          interface to bind to
  -V, --verbose             more detailed output
  -J, --json                output in JSON format
  --json-stream             output in line-delimited JSON format
  --json-stream-full-output the same, and the whole document behind it
  --logfile f               send output to a log file
  --timestamps[=format]     a time stamp at the start of each line (strftime)
  --rcv-timeout #           idle timeout for receiving data (default 120000 ms)
  --snd-timeout #           longest time without acknowledgement of sent data (ms)
  --cntl-ka[=idle/intv/cnt] idle time of the control connection before it is probed (default 10 s; cnt is the system's)
  --forceflush              accepted: every line is printed at once
  -m, --mptcp               multipath TCP, where the kernel has it (servers always take it)
  -v, --version             show version information and quit
  -h, --help                show this message and quit
Server specific:
  -s, --server              run in server mode: any number of clients at once
  -D, --daemon              run in the background
  -1, --one-off             end after one test
  --server-bitrate-limit #[KMG][/#]  most bits/s of a test, and seconds over which it is averaged (default 5)
  --server-max-duration #   longest test, seconds
  --idle-timeout #          with -1: end after this many seconds without a client
  --rsa-private-key-path f  RSA private key that decrypts credentials
  --authorized-users-path f file with the users' names and hashed passwords
  --time-skew-threshold #   largest error of a client's clock, seconds (default 10)
  --use-pkcs1-padding       take credentials of clients before 3.17, too (as a client: for servers before 3.17)
Client specific:
  -c, --client <host>       run in client mode, connecting to <host>
  -u, --udp                 use UDP rather than TCP
  --connect-timeout #       timeout for control connection setup (ms)
  -b, --bitrate #[KMG][/#]  bits/sec of each stream (0 for unlimited; default 1 Mbit/sec for UDP), and packets in a burst
  --fq-rate #[KMG]          most that the kernel lets out, bits/sec of each stream (SO_MAX_PACING_RATE)
  -t, --time      #         seconds to transmit for (default 10)
  -n, --bytes     #[KMG]    number of bytes to transmit (instead of -t)
  -k, --blockcount #[KMG]   number of blocks to transmit (instead of -t or -n)
  -l, --length    #[KMG]    bytes of a block (default 128 KB for TCP, the payload of a packet for UDP)
  --cport <port>            local port of the first stream
  -P, --parallel  #         number of parallel streams
  -R, --reverse             the server sends
  --bidir                   both send
  -w, --window    #[KMG]    socket buffer sizes
  -C, --congestion <algo>   TCP congestion control
  -M, --set-mss   #         TCP maximum segment size
  -N, --no-delay            TCP without Nagle's algorithm
  -4, --version4            only use IPv4
  -6, --version6            only use IPv6
  -S, --tos N               IP type of service, 0-255
  --dscp N                  DSCP, 0-63 or a name
  -L, --flowlabel N         IPv6 flow label
  -Z, --zerocopy            zero copy (payload is always sent by reference)
  --skip-rx-copy            receivers copy nothing (they never do)
  -O, --omit N              seconds at the start that do not count
  -T, --title str           prefix of every line
  --extra-data str          text for the JSON
  --get-server-output       results from the server
  --udp-counters-64bit      64-bit counters in UDP packets
  --gsro                    UDP GSO and GRO on both ends
  --repeating-payload       accepted: the payload always repeats a pattern
  --dont-fragment           IPv4 Don't Fragment flag
  --username name           name for authentication (the password is in IPERF3_PASSWORD)
  --rsa-public-key-path f   the server's RSA public key

[KMG] indicates options that support a K/M/G suffix for kilo-, mega-, or giga-
";
