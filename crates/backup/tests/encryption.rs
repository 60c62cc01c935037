//! Encrypted backups: what can be read with the right key, with another one, without one, and after damage.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

use std::io::Read;

use tempfile::TempDir;
use zebu_backup::core::archive::{Archive, Continuity, NewBase};
use zebu_backup::core::manifest::Base;
use zebu_backup::core::memory::MemoryTarget;
use zebu_backup::core::replay::{ReplayError, Unobserved, load_base, tree_options};
use zebu_backup::core::seal::{Sealer, Sealing};
use zebu_backup::core::target::{Content, Target};
use zebu_backup::encryption::{Identities, KeyError, KeyedTarget, Recipients, write_new_key};
use zebu_backup::spool::spool;
use zebu_storage::Compression;
use zebu_tree::Tree;

struct Keys {
    home: TempDir,
    public: String,
}

impl Keys {
    fn new() -> Keys {
        let home = TempDir::new().unwrap();
        let public = write_new_key(&home.path().join("key")).unwrap();
        Keys { home, public }
    }

    fn recipients(&self) -> Recipients {
        Recipients::parse(std::slice::from_ref(&self.public)).unwrap().unwrap()
    }

    fn target(&self, inner: &MemoryTarget) -> KeyedTarget<MemoryTarget> {
        KeyedTarget::new(inner.clone(), Identities::read(&self.home.path().join("key")).unwrap())
    }
}

/// A backup with one encrypted base.
fn backup(keys: &Keys) -> (MemoryTarget, Base) {
    let target = MemoryTarget::new();
    let tree = Tree::new(tree_options(1));
    let home = TempDir::new().unwrap();
    let snapshot = spool(&tree, home.path(), Compression::Snappy, Some(&keys.recipients())).unwrap();
    assert_eq!(snapshot.sealing(), Sealing::Age);
    let files: Vec<_> = std::fs::read_dir(snapshot.path().parent().unwrap()).unwrap().collect();
    assert_eq!(files.len(), 1, "the plain snapshot stays: {files:?}");
    let mut archive = Archive::open(target.clone(), "a").unwrap();
    let base = NewBase {
        zxid: tree.last_zxid(),
        time_ms: 1,
        local_time: false,
        nodes: tree.node_count() as u64,
        digest: tree.digest(),
        compression: Compression::Snappy,
        continuity: Continuity::NewChain,
    };
    archive.add_base(base, 1, &snapshot).unwrap();
    drop(snapshot);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "the spool is empty again");
    let base = archive.manifest().bases[0].clone();
    (target, base)
}

fn load(target: &impl Target, base: &Base) -> Result<Tree, ReplayError> {
    load_base(target, base, 1, &mut Unobserved)
}

#[test]
fn the_right_key_reads_and_all_else_has_a_clear_error() {
    let (keys, others) = (Keys::new(), Keys::new());
    let (target, base) = backup(&keys);
    assert!(base.name.ends_with(".snappy.age"), "{}", base.name);
    let tree = load(&keys.target(&target), &base).unwrap();
    assert_eq!(tree.digest(), base.digest);
    let without = load(&target, &base).unwrap_err().to_string();
    assert!(without.contains("--identity"), "{without}");
    let wrong = load(&others.target(&target), &base).unwrap_err().to_string();
    assert!(wrong.contains("for another key"), "{wrong}");
}

/// Each encryption of the same snapshot has other bytes, and a name has one object.
#[test]
fn a_base_that_was_written_again_stays_readable() {
    let keys = Keys::new();
    let (target, base) = backup(&keys);
    let mut archive = Archive::open(target.clone(), "a").unwrap();
    let tree = Tree::new(tree_options(1));
    for continuity in [Continuity::Continues, Continuity::NewChain, Continuity::Continues] {
        let home = TempDir::new().unwrap();
        let snapshot = spool(&tree, home.path(), Compression::Snappy, Some(&keys.recipients())).unwrap();
        assert_ne!(snapshot.sha256(), base.sha256);
        let again = NewBase {
            zxid: base.zxid,
            time_ms: 1,
            local_time: false,
            nodes: base.nodes,
            digest: base.digest,
            compression: Compression::Snappy,
            continuity,
        };
        archive.add_base(again, 1, &snapshot).unwrap();
        for base in &archive.manifest().bases {
            assert_eq!(load(&keys.target(&target), base).unwrap().digest(), base.digest);
        }
    }
    let chains: Vec<_> = archive.manifest().bases.iter().map(|base| base.chain).collect();
    assert_eq!(chains, [1, 2], "only another history is another base");
}

#[test]
fn a_cut_or_changed_object_is_damage() {
    let keys = Keys::new();
    let (target, base) = backup(&keys);
    let whole = target.get(&base.name, u64::MAX - 1).unwrap();
    let keyed = keys.target(&target);
    for length in 0..whole.len() {
        target.damage(&base.name, |bytes| *bytes = whole[..length].to_vec());
        let error = load(&keyed, &base).unwrap_err().to_string();
        assert!(error.contains("is damaged"), "cut to {length}: {error}");
    }
    // Each flipped bit of the header, of the keys and of the content.
    for at in 0..whole.len() {
        target.damage(&base.name, |bytes| {
            bytes.clone_from(&whole);
            bytes[at] ^= 1;
        });
        let error = load(&keyed, &base).unwrap_err().to_string();
        assert!(
            error.contains("is damaged") || error.contains("for another key"),
            "changed at {at}: {error}"
        );
    }
    target.damage(&base.name, |bytes| bytes.clone_from(&whole));
    load(&keyed, &base).unwrap();
}

#[test]
fn each_of_several_keys_reads() {
    let (first, second) = (Keys::new(), Keys::new());
    let both = Recipients::parse(&[first.public.clone(), second.public.clone()]).unwrap().unwrap();
    let mut sealed = Vec::new();
    both.seal(&mut &b"content"[..], &mut sealed).unwrap();
    for keys in [&first, &second] {
        let target = keys.target(&MemoryTarget::new());
        let mut plain = Vec::new();
        target.unseal("x.age", Box::new(sealed.as_slice())).unwrap().read_to_end(&mut plain).unwrap();
        assert_eq!(plain, b"content");
    }
}

#[test]
fn keys_that_are_none() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("key");
    let error = Recipients::parse(&["age1xyz".to_owned()]).unwrap_err().to_string();
    assert!(error.contains("age1xyz is no public key"), "{error}");
    assert!(Recipients::parse(&[]).unwrap().is_none());
    assert!(matches!(Identities::read(&path), Err(KeyError::File { .. })));
    std::fs::write(&path, "# nothing\n\n").unwrap();
    let error = Identities::read(&path).unwrap_err().to_string();
    assert!(error.contains("the file has no key"), "{error}");
    std::fs::write(&path, "# a remark\nAGE-SECRET-KEY-1WRONG\n").unwrap();
    let error = Identities::read(&path).unwrap_err().to_string();
    assert!(error.contains("line 2"), "{error}");
    // An existing key is never replaced.
    assert!(write_new_key(&path).is_err());
    let new = home.path().join("new");
    write_new_key(&new).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&new).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert!(!format!("{:?}", Identities::read(&new).unwrap()).contains("SECRET"));
}
