//! Ranks on two hosts, made of network namespaces of this machine: what goes between them goes over a link.
//!
//! ```text
//!   shardweave-a  ranks 0, 1 ──veth── 1 Gbit/s ──veth── ranks 2, 3  shardweave-b
//! ```
//!
//! Each has a host name of its own, so Open MPI takes them for two machines: ranks of one share memory, and messages
//! go between the two. Runs the MLP, one part after the other and overlapped, and compares the bytes of its output with
//! those of threads; then [measures](overlap) what overlapping brings. What was made is removed at the end, however that
//! comes. Needs root, and Open MPI.

mod overlap;

use crate::mpi::{self, Found};
use crate::{Failed, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The hosts, which are named as their namespaces, and their addresses on the link between them.
const HOSTS: [(&str, &str); 2] = [("shardweave-a", "10.213.77.1/30"), ("shardweave-b", "10.213.77.2/30")];
const NETWORK: &str = "10.213.77.0/30";

/// How many ranks each host has.
const RANKS: [[usize; 2]; 3] = [[1, 1], [3, 1], [2, 2]];

/// No run takes longer, in seconds.
const LIMIT: &str = "120";

const SIZES: [&str; 4] = ["b=2", "s=1024", "e=512", "h=2048"];

/// The MLP at once, in steps with one owner each, and in steps of which every rank has a part.
const PLACEMENTS: [&str; 3] = ["sequence_parallel", "overlapped", "overlapped_fine"];

/// What plans are made for: the link between the hosts.
const LINK: [&str; 2] = ["--link", "100,0.125"];

/// What lies in the folder of the runs.
const FOLDER: &str = "target/hosts";

/// Makes the hosts, runs, removes the hosts.
pub fn run_all() -> Result<(), Failed> {
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    if !root {
        eprintln!("network namespaces are made by root only: run it as root");
        return Err(Failed);
    }
    let mpi = mpi::open_mpi()?;
    let mut build = mpi.cargo("build");
    build.args(["--release", "--package", "shardweave", "--package", "shardweave-testkit", "--features"]);
    run(with(build, &["shardweave/mpi,shardweave-testkit/mpi"]))?;
    let progress = overlap::build(&mpi)?;
    fs::create_dir_all(FOLDER).map_err(|error| {
        eprintln!("{FOLDER}: {error}");
        Failed
    })?;
    let _hosts = Hosts::make()?;
    let runs = Runs { mpi: &mpi, agent: agent()? };
    RANKS.iter().try_for_each(|ranks| runs.compare(*ranks))?;
    println!("all bytes are those of threads");
    overlap::measure(&runs, &progress)
}

/// The hosts, and who removes them.
struct Hosts {
    /// Waits until its input ends, which it does however this process ends.
    guard: Child,
}

/// Ends what runs in the hosts, and removes them; they need not be there.
const REMOVE: &str =
    "for host; do kill -KILL $(ip netns pids $host); ip netns delete $host; done 2>/dev/null";

impl Hosts {
    fn make() -> Result<Hosts, Failed> {
        let [(a, _), (b, _)] = HOSTS;
        // What two runs at once would have in common cannot be shared.
        if Path::new("/run/netns").join(a).exists() {
            eprintln!("there is a host {a} already: another run is at work");
            return Err(Failed);
        }
        let script = format!("trap '' INT TERM HUP; cat; {REMOVE}");
        let mut guard = Command::new("sh");
        guard.args(["-c", &script, "sh", a, b]).stdin(Stdio::piped()).stdout(Stdio::null());
        let guard = guard.spawn().map_err(|error| {
            eprintln!("sh does not start: {error}");
            Failed
        })?;
        let hosts = Hosts { guard };
        ip(&["netns", "add", a])?;
        ip(&["netns", "add", b])?;
        ip(&["link", "add", "link0", "netns", a, "type", "veth", "peer", "name", "link0", "netns", b])?;
        for (host, address) in HOSTS {
            ip(&["-n", host, "address", "add", address, "dev", "link0"])?;
            ip(&["-n", host, "link", "set", "link0", "up"])?;
            ip(&["-n", host, "link", "set", "lo", "up"])?;
            let slow = "qdisc add dev link0 root tbf rate 1gbit burst 256kb latency 50ms";
            let words: Vec<&str> = ["-n", host].into_iter().chain(slow.split(' ')).collect();
            run(with(Command::new("tc"), &words))?;
        }
        Ok(hosts)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait(); // it has said what it could not do
    }
}

fn ip(words: &[&str]) -> Result<(), Failed> {
    run(with(Command::new("ip"), words))
}

fn with(mut command: Command, words: &[&str]) -> Command {
    command.args(words);
    command
}

/// The script by which Open MPI starts its daemon on another host: `agent HOST COMMAND...`.
fn agent() -> Result<PathBuf, Failed> {
    let script = "#!/bin/sh\nhost=$1\nshift\nexec ip netns exec \"$host\" unshare --uts sh -c \"hostname $host; $*\"\n";
    let path = Path::new(FOLDER).join("agent.sh");
    let written = fs::write(&path, script)
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
        .and_then(|()| path.canonicalize());
    written.map_err(|error| {
        eprintln!("{}: {error}", path.display());
        Failed
    })
}

struct Runs<'a> {
    mpi: &'a Found,
    agent: PathBuf,
}

impl Runs<'_> {
    /// Whether ranks that are spread so give the bytes of threads, on both placements.
    fn compare(&self, ranks: [usize; 2]) -> Result<(), Failed> {
        let total: usize = ranks.iter().sum();
        let hosts = [vec!["0".to_string(); ranks[0]], vec![ranks[0].to_string(); ranks[1]]].concat();
        run(self.ranks(ranks, &self.built("shardweave-testkit-ranks"), &["hosts", &hosts.join(",")]))?;
        let axis = format!("line.tp={total}");
        for placement in PLACEMENTS {
            println!("\n{placement} on {} ranks of one host and {} of another", ranks[0], ranks[1]);
            let words = ["run", "examples/mlp.weave", "--placement", placement, "--mesh", &axis, "--size"];
            let words = [&words[..], &SIZES, &LINK, &["--random", "1", "--outputs"]].concat();
            let (here, there) =
                (format!("{FOLDER}/threads.safetensors"), format!("{FOLDER}/ranks.safetensors"));
            let mut threads = Command::new(self.built("shardweave"));
            threads.args([&words[..], &[&here, "--json"]].concat()).stdout(Stdio::null());
            run(threads)?;
            let repeated = ["--on", "mpi", "--timeout", "30", "--repeat", "9"];
            run(self.ranks(ranks, &self.built("shardweave"), &[&words[..], &[&there], &repeated].concat()))?;
            if fs::read(&here).ok().filter(|bytes| !bytes.is_empty()) != fs::read(&there).ok() {
                eprintln!("{here} and {there} differ");
                return Err(Failed);
            }
        }
        Ok(())
    }

    /// The command that starts ranks from the first host; a host may have none.
    fn ranks(&self, ranks: [usize; 2], program: &Path, args: &[&str]) -> Command {
        let [(first, _), (second, _)] = HOSTS;
        let mut command = Command::new("timeout");
        command.args([LIMIT, "ip", "netns", "exec", first, "unshare", "--uts", "sh", "-c"]);
        command.args([&format!("hostname {first}; exec \"$@\""), "sh", self.mpi.launcher]);
        command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]);
        command.args(["--mca", "btl", "tcp,vader,self", "--mca", "btl_tcp_if_include", NETWORK]);
        command.args(["--mca", "oob_tcp_if_include", NETWORK, "--mca", "plm_rsh_agent"]).arg(&self.agent);
        let hosts = [(first, ranks[0]), (second, ranks[1])];
        let hosts =
            hosts.iter().filter(|(_, ranks)| *ranks > 0).map(|(host, ranks)| format!("{host}:{ranks}"));
        command.args(["--host", &hosts.collect::<Vec<_>>().join(",")]);
        command.args(["-n", &(ranks[0] + ranks[1]).to_string()]).arg(program).args(args);
        command
    }

    fn built(&self, program: &str) -> PathBuf {
        self.mpi.folder().join("release").join(program)
    }
}
