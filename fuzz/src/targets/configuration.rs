//! Any zoo.cfg is a configuration or a list of mistakes.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use zebu_server::config::{ConfigInputs, SystemAccess, load};

struct OneFile<'a>(&'a [u8]);

impl SystemAccess for OneFile<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if path.ends_with("myid") { Ok(b"1\n".to_vec()) } else { Ok(self.0.to_vec()) }
    }

    fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)])
    }

    fn is_directory(&self, _: &Path) -> bool {
        false
    }

    fn interface_index(&self, _: &str) -> io::Result<u32> {
        Ok(1)
    }
}

pub(super) fn run(data: &[u8]) {
    let inputs = ConfigInputs {
        arguments: vec!["zoo.cfg".to_owned()],
        properties: Vec::new(),
        environment: Default::default(),
    };
    let loaded = load(&inputs, &OneFile(data));
    assert_eq!(
        loaded.config.is_none(),
        !loaded.diagnostics.errors.is_empty(),
        "refused exactly when something is wrong"
    );
}

pub(super) fn corpus() -> Vec<Vec<u8>> {
    let texts = [
        "tickTime=2000\ndataDir=/var/lib/zookeeper\nclientPort=2181\n",
        "dataDir=/d\nclientPort=2181\ninitLimit=10\nsyncLimit=5\nserver.1=a:2888:3888\nserver.2=b:2888:3888\n\
         server.3=c:2888:3888:observer;2181\ngroup.1=1:2\nweight.1=3\n",
        "dataDir=C:\\\\zk\\\\data \\\n  more\nclientPort = 2181\n# comment\n! other\nssl.quorum.keyStore.location=x\n",
        "dataDir=/d\ndynamicConfigFile=/conf/zoo.cfg.dynamic.1a\n4lw.commands.whitelist=*\nautopurge.purgeInterval=1\n",
        "server.1=[::1]:2888:3888|127.0.0.1:2889:3889\nmaxClientCnxns=0\nadmin.enableServer=false\n\\u0041=b\n",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}
