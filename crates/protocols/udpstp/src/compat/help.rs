//! The usage.

pub(super) const USAGE: &str = "\
UDP Speed Test
Usage: udpst [option]... [server[:<port>]]...

With -u or -d a client, which tests upstream or downstream; else a server.

Client and server:
  -4, -6         IPv4 or IPv6 addresses only
  -p port        Control port [24601]
  -v             Verbose output
  -s             Summary and maximum only
  -f format      JSON output: json, jsonb (brief), jsonf (formatted)
  -j             No jumbo datagrams above 1 Gbps
  -T             Datagrams for the traditional MTU (1500 bytes)
  -X             Random datagram payload (a server: permitted)
  -S             Print the table of sending rates
  -B mbps        Bandwidth that a client needs, or that a server has
  -r             Loss ratio instead of delivered percentage
  -a key         Authentication key (64 characters at most)
  -K file        File of authentication keys, a line ID,KEY for each
  -b buffer      Socket buffers, bytes [1024000]
  -t time        Test interval, s [10]; a server: the most [3600]
  -I [@]index    Row of the table: fixed, or with @ the first; a server: the most
  -m value       DSCP and ECN octet; a server: the most
  --save file    Keep the run for netcaliper report

Client:
  -C cnt[-max]   Connections [one per server]
  -P period      Sub-interval, ms [1000]
  -i [-]count    Bimodal maxima: sub-intervals of the first mode (-: at a fixed rate)
  -o             One-way delay variation instead of that of round trips
  -R             Out-of-order and duplicate datagrams count
  -A algo        Rate adjustment: B or C [B]
  -L, -U delvar  Delay variation thresholds, ms [30, 90]
  -F interval    Trial interval, ms [50]
  -c thresh      Bad reports until the search is slow [3]
  -h delta       Rows of a fast step [10]
  -q seqerr      Sequence errors of a good report [10]
  -Z thresh      Share of CE marks of a good report (1 - 255)
  -y keyid       Number of the key [0]

Server:
  -1             Ends after one test
  -x             Goes on in the background

Accepted and without effect: -e -D -n -E -M -O -G -l -k
";
