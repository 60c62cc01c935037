//! Ensembles whose servers protect their connections: certificates, logins and the lines that use them.
//!
//! Server N is known as 127.0.0.N, so that each certificate names one server.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]
#![allow(dead_code, reason = "each test uses a part")]

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use zebu_testing::four_letter;

use crate::addresses;
use crate::ensemble::{Ensemble, TIME_LIMIT};

/// Separates the lines of protection from the others in a configuration.
const MARK: &str = "# protection";

/// `quorum.auth.*` with all demands.
pub(crate) const SASL: &str = "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\n\
                               quorum.auth.serverRequireSasl=true\n";

/// TLS only.
pub(crate) const TLS: &str = "sslQuorum=true\n";

/// An ensemble with a certificate authority.
pub(crate) struct ProtectedEnsemble {
    pub(crate) ensemble: Ensemble,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl ProtectedEnsemble {
    /// Writes everything for three servers; none runs yet. `lines` are for all of them.
    pub(crate) fn prepare(lines: &str) -> ProtectedEnsemble {
        ProtectedEnsemble::prepare_as(&["participant"; 3], lines)
    }

    /// The same for servers with these roles.
    pub(crate) fn prepare_as(roles: &[&str], lines: &str) -> ProtectedEnsemble {
        let member = |_, id: usize, quorum, election| {
            format!("server.{id}=127.0.0.{id}:{quorum}:{election}:{}", roles[id - 1])
        };
        let ensemble = addresses::prepare(roles.len(), "initLimit=20", &member);
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let prepared = ProtectedEnsemble { ensemble, authority };
        fs::write(prepared.path("trust.pem"), prepared.authority.pem()).unwrap();
        for index in 0..roles.len() {
            prepared.certify(index, &format!("127.0.0.{}", index + 1));
            prepared.log_in(index, "quorumpw");
            prepared.protect(index, lines);
        }
        prepared
    }

    /// The same with all servers running.
    pub(crate) fn start(lines: &str) -> ProtectedEnsemble {
        let mut prepared = ProtectedEnsemble::prepare(lines);
        (0..3).for_each(|index| prepared.ensemble.run(index));
        prepared.ensemble.await_leader(3);
        prepared
    }

    fn path(&self, name: &str) -> PathBuf {
        self.ensemble.home.path().join(name)
    }

    /// Gives a server a certificate for this host.
    pub(crate) fn certify(&self, index: usize, host: &str) {
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        fs::write(self.path(&format!("server{index}.pem")), key.serialize_pem() + &certificate.pem())
            .unwrap();
    }

    /// Gives a server the logins of both sides.
    pub(crate) fn log_in(&self, index: usize, password: &str) {
        let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
        let text = format!(
            "QuorumServer {{ {module} user_zebu=\"{password}\"; }};\n\
             QuorumLearner {{ {module} username=\"zebu\" password=\"{password}\"; }};\n"
        );
        fs::write(self.path(&format!("jaas{index}.conf")), text).unwrap();
    }

    /// Replaces the lines of protection of a server. It must be restarted then.
    pub(crate) fn protect(&self, index: usize, lines: &str) {
        let file = self.path(&format!("zoo{index}.cfg"));
        let text = fs::read_to_string(&file).unwrap();
        let head = text.split(MARK).next().unwrap().trim_end();
        let (jaas, key) = (self.path(&format!("jaas{index}.conf")), self.path(&format!("server{index}.pem")));
        let mut added = lines.to_owned();
        if lines.contains("enableSasl=true") {
            added += &format!("fips-mode=false\njava.security.auth.login.config={}\n", jaas.display());
        }
        if lines.contains("sslQuorum=true") || lines.contains("portUnification=true") {
            added += &format!("ssl.quorum.keyStore.location={}\n", key.display());
            added += &format!("ssl.quorum.trustStore.location={}\n", self.path("trust.pem").display());
        }
        fs::write(file, format!("{head}\n{MARK}\n{added}")).unwrap();
    }

    /// Ends a server and runs it again.
    pub(crate) fn restart(&mut self, index: usize) {
        if self.ensemble.children[index].is_some() {
            self.ensemble.kill(index);
        }
        self.ensemble.run(index);
    }

    pub(crate) fn log(&self, index: usize) -> String {
        fs::read_to_string(self.path(&format!("log{index}"))).unwrap_or_default()
    }

    /// Waits until a server has logged a line with all of these texts.
    pub(crate) fn await_log(&self, index: usize, texts: &[&str]) {
        let deadline = Instant::now() + TIME_LIMIT;
        let is_there = |log: String| log.lines().any(|line| texts.iter().all(|text| line.contains(text)));
        while !is_there(self.log(index)) {
            let logs = self.ensemble.logs();
            assert!(Instant::now() < deadline, "server {index} does not log {texts:?}\n{logs}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A value of `mntr`; 0 while the server does not serve.
    pub(crate) fn metric(&self, index: usize, key: &str) -> i64 {
        let text = four_letter::ask(self.ensemble.clients[index], "mntr", TIME_LIMIT).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("zk_{key}\t")));
        line.map_or(0, |value| value.parse::<f64>().unwrap() as i64)
    }

    /// The quorum port and the election port of a server.
    pub(crate) fn peer_ports(&self, index: usize) -> [SocketAddr; 2] {
        let host = Ipv4Addr::new(127, 0, 0, index as u8 + 1);
        self.ensemble.ports[index].map(|port| SocketAddr::from((host, port)))
    }

    /// Writes through each of these servers and reads it back from each.
    pub(crate) async fn writes_through(&self, servers: &[usize], name: &str) {
        for &index in servers {
            let client = self.ensemble.client(&[index]).await;
            let path = format!("/{name}-{index}");
            let deadline = Instant::now() + TIME_LIMIT;
            while let Err(error) = client.create(&path).data(&b"x"[..]).await {
                // The loss of a connection leaves it in doubt whether the first attempt has succeeded.
                if client.get(&path).await.is_ok() {
                    break;
                }
                assert!(Instant::now() < deadline, "{path}: {error}\n{}", self.ensemble.logs());
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            client.close().await.unwrap();
        }
        for &reader in servers {
            let client = self.ensemble.client(&[reader]).await;
            client.sync("/").await.unwrap();
            for &index in servers {
                assert_eq!(client.get(&format!("/{name}-{index}")).await.unwrap().data.as_ref(), b"x");
            }
            client.close().await.unwrap();
        }
    }
}
