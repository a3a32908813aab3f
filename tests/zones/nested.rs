//! Sandboxes that commands make inside of a zone, where the loop lets them: they work, and lead no further than the zone.

use super::run::backend;
use super::{Ground, is_root, unprivileged};

/// A sandbox as agents make them, with a network, processes and a `/proc` of its own; what it says yes to is the work.
const SANDBOX: &str = "bwrap --unshare-all --ro-bind / / --dev /dev --proc /proc --bind \"$PWD\" \"$PWD\" --chdir \"$PWD\" sh -c 'test $(ls /proc | grep -c ^[0-9]) -lt 6 && echo yes > done'";

/// What somebody tries who is root in a sandbox of his own.
const HOSTILE: &str = "unshare -Urmpf --mount-proc sh -c '
cat \"$SECRET\" && echo REACHED the secret
echo x > /proc/sys/kernel/core_pattern && echo REACHED core_pattern
echo x > /proc/sysrq-trigger && echo REACHED sysrq
umount /usr && echo REACHED umount
mount -o remount,rw /usr && echo REACHED remount
mount -o remount,bind,rw / && echo REACHED the root
mkdir -p m && mount -t sysfs sysfs m && echo REACHED sysfs
mknod d b 8 0 && cat d && echo REACHED a device
python3 -c \"import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\" && echo REACHED packets
python3 -c \"import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\" && echo REACHED raw packets
python3 -c \"import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)\" && echo REACHED uevents
python3 -c \"import socket; socket.create_connection((\\\"127.0.0.1\\\", $PORT), 2)\" && echo REACHED the host
cat /proc/kcore > /dev/null && echo REACHED kcore
head -c1 /proc/kmsg && echo REACHED kmsg
true'; rm -rf m d";

fn sandboxes_work_and_lead_nowhere(before: &[&str], backend: &str) {
    let ground = Ground::new();
    let host = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = host.local_addr().unwrap().port().to_string();
    let hostile = HOSTILE
        .replace("\"$SECRET\"", &ground.at("home/secret").display().to_string())
        .replace("$PORT", &port);
    std::fs::write(ground.at("project/hostile.sh"), hostile).unwrap();
    // The check has none, and is held to that too.
    let check = "grep -q yes done; told=$?; unshare -U true 2>/dev/null && echo REACHED a namespace; test $told = 0";
    let exec = format!("sh hostile.sh\n{SANDBOX}");
    ground.lines(backend, &exec, check, "  agent: {nested: true}\n");
    if !before.is_empty() {
        ground.give_away();
    }
    let said = ground.converges(before);
    assert_eq!(said["isolation"]["degraded"], false, "{said}");
    let printed = ground.outputs();
    assert!(!printed.contains("REACHED"), "{printed}");
    // What was tried did run.
    assert!(printed.contains("core_pattern"), "{printed}");
}

#[test]
fn a_loop_lets_its_agent_make_sandboxes_and_its_check_none() {
    sandboxes_work_and_lead_nowhere(&[], backend());
    if is_root() {
        sandboxes_work_and_lead_nowhere(&unprivileged(), "namespaces");
    }
}
