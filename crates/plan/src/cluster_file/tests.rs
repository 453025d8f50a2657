//! Files that come back as they were written, and those that are refused.

use super::*;
use proptest::prelude::*;

fn host(name: &str, speed: f64) -> Host {
    Host {
        name: name.into(),
        cpu: "Xeon \"2\"".into(),
        isa: "avx512".into(),
        cores: 2,
        peak_flops_per_core: Some(2e11),
        flops_per_core: 1.3e11 * speed,
        flops: 2.4e11 * speed,
        memory_bytes: 16_000_000_000,
        memory_bandwidth_per_core: 1.1e10,
        memory_bandwidth: 1.6e10,
        disk_write: Some(4e8),
        disk_read: None,
        disk_sync_s: Some(0.002),
        step_s: Some(2e-6),
        threads_exchange: Some(vec![[64.0, 1e-6], [1e6, 2e-4]]),
        processes: Some(ProcessLink { latency_s: 1e-6, bandwidth: 4e9, exchange: None, slows: Some(0.25) }),
        kernels: BTreeMap::from([("dense-forward 32 128 784".into(), [6.4e6, 5.2e5, 8e-5, 8.1e-5, 5e-5])]),
    }
}

fn link(a: &str, b: &str, bandwidth: f64) -> Link {
    Link {
        hosts: [a.into(), b.into()],
        latency_s: 5e-5,
        bandwidth,
        exchange: Some(vec![[12.0, 1e-4], [1e6, 9e-3]]),
        slows: None,
    }
}

fn three() -> ClusterFile {
    let hosts = vec![host("a", 1.0), host("b", 0.5), host("c", 1.0)];
    ClusterFile::new(hosts, vec![link("a", "b", 2e8), link("b", "c", 1e8), link("c", "a", 2e8)]).unwrap()
}

#[test]
fn what_contradicts_itself_is_refused() {
    let text = three().to_toml();
    let refused = |from: &str, to: &str, expected: &str| {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        let error = ClusterFile::parse(&changed, "c.toml").expect_err(expected);
        assert!(error.message().contains(expected) && error.message().contains("c.toml"), "{error}");
    };
    refused("format = 2", "format = 3", "is not one that this program reads");
    refused("format = 2\n", "", "`format = 2` is missing");
    refused("cores = 2", "cores = 0", "cores is 0");
    refused("cores = 2", "cores = -2", "c.toml");
    refused("cores = 2", "coers = 2", "unknown key coers in [[host]]; did you mean cores?");
    refused("[[link]]", "[[lnik]]", "unknown key lnik; did you mean link?");
    refused("name = \"a\"", "name = \"b\"", "host b is there twice");
    refused("name = \"a\"", "name = \" \"", "has no name");
    refused("hosts = [\"b\", \"c\"]", "hosts = [\"b\", \"d\"]", "no [[host]] d");
    refused("hosts = [\"b\", \"c\"]", "hosts = [\"b\", \"b\"]", "needs two hosts");
    refused("hosts = [\"b\", \"c\"]", "hosts = [\"b\", \"a\"]", "is there twice");
    refused("hosts = [\"b\", \"c\"]", "hosts = [\"b\"]", "c.toml");
    refused("latency_s = 0.00005", "latency_s = nan", "latency_s is NaN");
    refused("bandwidth = 200000000.0", "bandwidth = -1.0", "bandwidth is -1");
    refused("flops = ", "# flops = ", "missing field `flops`");
    refused("flops_per_core = 130000000000.0", "flops_per_core = 130.0", "flops_per_core is 1.3e2, which cannot be");
    refused("bandwidth = 200000000.0", "bandwidth = 2e30", "bandwidth is 2e30, which cannot be");
    refused("latency_s = 0.00005", "latency_s = 3600.0", "latency_s is 3.6e3, which cannot be");
    refused("cores = 2", "cores = 99000000", "cores is 9.9e7, which cannot be");
    refused("slows = 0.25", "slows = -1.5", "slows is -1.5; give seconds");
    refused("\"dense-forward 32", "\"dense-forwrd 32", "unknown kernel dense-forwrd; did you mean dense-forward?");
    refused("exchange = [[12.0", "exchange = [[-12.0", "link a – b: exchange has the point [-12");
    refused("step_s = ", "step_s = -", "step_s is -");
    let last = text.rfind("[[link]]").unwrap();
    let error = ClusterFile::parse(&text[..last], "c.toml").unwrap_err();
    assert!(error.message().contains("no [[link]] joins a and c"), "{error}");
    assert!(ClusterFile::parse("format = 1\nhost = []", "c.toml").is_err());
    assert!(ClusterFile::parse("format = 1", "c.toml").is_err());
    assert!(ClusterFile::parse("host = 7\nformat = 1", "c.toml").is_err());
    assert!(ClusterFile::parse("\u{0}", "c.toml").is_err());
}

proptest! {
    #[test]
    fn files_come_back_as_they_were_written(
        figures in prop::collection::vec((1e6f64..1e15, 1usize..1000, prop::option::of(1e3f64..1e14)), 1..5),
        bandwidth in 1e3f64..1e12,
    ) {
        let hosts: Vec<Host> = figures
            .iter()
            .enumerate()
            .map(|(i, &(flops, cores, disk))| Host { cores, flops, disk_read: disk, ..host(&format!("h{i}\"\\"), 1.0) })
            .collect();
        let pairs = (0..hosts.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
        let links = pairs.map(|(i, j)| link(&hosts[i].name, &hosts[j].name, bandwidth)).collect();
        let file = ClusterFile::new(hosts, links).unwrap();
        prop_assert_eq!(ClusterFile::parse(&file.to_toml(), "c.toml").unwrap(), file);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(format = 1\n)?[\\[\\]a-z0-9=\" .\n]{0,80}") {
        let _ = ClusterFile::parse(&text, "c.toml");
    }
}

#[test]
fn files_of_the_first_format_are_read() {
    let text = "format = 1\n[[host]]\nname = \"a\"\ncpu = \"Xeon\"\nisa = \"avx512\"\ncores = 2\nflops_per_core = 1.2e11\nflops = 2.3e11\n\
                memory_bytes = 16_000_000_000\nmemory_bandwidth_per_core = 1.1e10\nmemory_bandwidth = 1.6e10\n";
    let file = ClusterFile::parse(text, "c.toml").unwrap();
    assert!(file.hosts[0].kernels.is_empty() && file.hosts[0].processes.is_none());
}
