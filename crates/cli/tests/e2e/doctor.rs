//! `paceline doctor`: a machine measured, and the file that planning reads.

use crate::session::Session;
use paceline::plan::ClusterFile;

#[test]
fn a_machine_is_measured_into_a_file_that_is_read_back() {
    let s = Session::new();
    let text = s.ok("doctor");
    assert!(text.contains("product, one core") && text.contains("written to cluster.toml"), "{text}");
    let first = s.read("cluster.toml");
    let file = ClusterFile::parse(&first, "cluster.toml").unwrap();
    assert_eq!((file.hosts.len(), file.links.len()), (1, 0));
    assert!(file.hosts[0].flops > 1e6 && !file.hosts[0].kernels.is_empty());
    let found = s.json("doctor --json -q");
    assert!(found["warnings"].is_array());
    assert_eq!(found["hosts"][0]["cores"].as_u64(), Some(file.hosts[0].cores as u64));
    assert_eq!(s.read("cluster.toml.bak"), first, "what was there before is kept");
    let message = s.fails(2, "doctor -q --out .");
    assert!(message.contains("is a folder"), "{message}");
    let message = s.fails(2, "doctor -q --out absent/cluster.toml");
    assert!(message.contains("no such file or folder"), "{message}");
}
