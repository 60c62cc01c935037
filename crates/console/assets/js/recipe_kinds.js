// Knows the layouts of Curator, Kazoo, go-zk and ZooKeeper's own recipes by the names of their nodes.
// @ts-check

const UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
const PROTECTED = `_c_(${UUID}|[0-9a-f]{32})-`;

/** The order matters: the first pattern that fits a name decides. */
const PATTERNS = [
  { kind: "curator-read-write", test: new RegExp(`^${PROTECTED}.*__(READ|WRIT)__\\d{10}$`) },
  { kind: "curator-semaphore", test: new RegExp(`^${PROTECTED}lease-\\d{10}$`) },
  { kind: "curator-latch", test: new RegExp(`^${PROTECTED}latch-\\d{10}$`) },
  { kind: "curator-lock", test: new RegExp(`^${PROTECTED}lock-\\d{10}$`) },
  { kind: "kazoo-read-write", test: /__rlock__\d{10}$/ },
  { kind: "kazoo-lock", test: /^[0-9a-f]{32}__lock__\d{10}$/ },
  { kind: "c-lock", test: /^x-[0-9a-f]+-\d{10}$/ },
  { kind: "read-write", test: /^(read|write)-\d{10}$/ },
  { kind: "lock", test: /^(lock|mutex)[-_]\d{10}$/ },
  { kind: "election", test: /^(n|guid-n|candidate|election|leader|member)[-_]\d{10}$/ },
  { kind: "queue", test: /^(queue|qn|item|entry(-\d+)?|element)-\d{10}$/ },
];

/** What the first holders of each kind are. */
const QUEUES = new Set(["curator-read-write", "curator-lock", "curator-latch", "kazoo-read-write", "kazoo-lock", "c-lock", "read-write", "lock", "election", "sequence"]);

export const KINDS = [...PATTERNS.map((pattern) => pattern.kind), "discovery", "group", "sequence"];

/** The number at the end of a sequential name. */
export function sequenceOf(/** @type {string} */ name) {
  const digits = /(\d{10})$/.exec(name);
  return digits ? Number(digits[1]) : null;
}

/** The kind of a parent by its children. */
export function kindOf(/** @type {{name: string, lifetime?: string}[]} */ children, /** @type {string | null} */ firstData) {
  for (const child of children) {
    const pattern = PATTERNS.find(({ test }) => test.test(child.name));
    if (pattern) return pattern.kind;
  }
  const isSequence = children.some((child) => sequenceOf(child.name) !== null);
  if (isSequence) return children.every((child) => child.lifetime !== "ephemeral") ? "queue" : "sequence";
  if (firstData && /"(address|host|port|serviceEndpoint|uriSpec)"|^[\w.-]+:\d{2,5}$/.test(firstData)) return "discovery";
  return "group";
}

function isWriter(/** @type {string} */ name) {
  return /__WRIT__|__lock__|^write-/.test(name);
}

/**
 * Children in the order of their turns, with their part.
 * @param {string} kind @param {any[]} children
 * @returns {{child: any, part: "holds" | "waits" | "member" | "item"}[]}
 */
export function turns(kind, children) {
  const sorted = [...children].sort((a, b) => (sequenceOf(a.name) ?? 0) - (sequenceOf(b.name) ?? 0));
  if (kind === "queue") return sorted.map((child) => ({ child, part: "item" }));
  if (kind === "curator-semaphore") return sorted.map((child) => ({ child, part: "holds" }));
  if (!QUEUES.has(kind)) return sorted.map((child) => ({ child, part: "member" }));
  const sharing = kind.includes("read-write");
  const firstWriter = sharing ? sorted.findIndex((child) => isWriter(child.name)) : 0;
  return sorted.map((child, index) => {
    const holds = index === 0 || (sharing && (firstWriter < 0 || index < firstWriter));
    return { child, part: holds ? "holds" : "waits" };
  });
}

/** Whether the first place means that something is held. */
export function isQueue(/** @type {string} */ kind) {
  return QUEUES.has(kind);
}
