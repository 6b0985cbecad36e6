//! What `--help` adds to the options: examples, and the exit codes. No line is longer than 78 characters.

pub(super) const TOP: &str = "\
Examples:
  leasehold demo
  leasehold run --store sqlite:work.db --pool jobs --resources a,b,c \\
      -- ./worker {resource}
  leasehold status --store sqlite:work.db

Exit codes:
  0    done
  1    the answer is no: not trusted, or not found
  2    the command line, the configuration or the store's set-up is wrong
  3    the ledger shows a violation (verify)
  69   the store does not answer
  75   somebody else leads, or leadership was lost (elect)
  71   the system refused something that was needed
  126  the command to run may not be executed
  127  the command to run does not exist
  130  ended at once, by a second signal

Options can also come from the environment (LEASEHOLD_STORE, LEASEHOLD_POOL,
...) or from a TOML file given with --config, under the option's own name.
The command line wins, then the environment, then the file. The API key for a
Leasehold server comes from LEASEHOLD_API_KEY, or from the file that
LEASEHOLD_API_KEY_FILE names.";

pub(super) const DEMO: &str = "\
Examples:
  leasehold demo
  leasehold demo --ttl 1s
  leasehold demo --plain

In a terminal it shows a live picture until q is pressed; keys kill, freeze,
drain and add members. Without one it prints lines and ends by itself. It
exits with 1 if anything was ever worked on by two at once.";

pub(super) const RUN: &str = "\
Examples:
  leasehold run --store sqlite:work.db --pool jobs --resources a,b,c \\
      -- ./worker {resource}
  leasehold run --store sqlite:work.db --pool cameras --ttl 10s \\
      --from file:cameras.txt -- ./track {resource}
  leasehold run --store sqlite:work.db --pool tenants --capacity 20 \\
      --from dir:/srv/tenants -- ./serve {resource}

Start the same line as often as you like, with a server as the store on as
many hosts as you like: the processes share the resources out. {resource}, {token}, {pool} and {member} in the command are
replaced. The command finds LEASEHOLD_POOL, LEASEHOLD_RESOURCE,
LEASEHOLD_TOKEN, LEASEHOLD_MEMBER and LEASEHOLD_SOCKET in its environment.
Linux only.";

pub(super) const MANAGER: &str = "\
Examples:
  leasehold manager --config manager.toml --check
  leasehold manager --config manager.toml
  leasehold manager status --config manager.toml

The least that a configuration has:

  control_plane_url = \"https://plane.example.org\"
  api_key = \"${API_KEY}\"
  runner_id = \"runner-1\"
  deployment_group = \"production\"
  deployment_version = \"v1\"
  worker_command = [\"./worker\"]

Every field can also come from the environment, as LEASEHOLD_RUNNER_ID, which
wins. A change of the file is in force within seconds. Linux only.";

pub(super) const POLL: &str = "\
Examples:
  leasehold poll --store redis://cache.example.org --interval 10s
  leasehold poll --store redis://cache.example.org --from redis-hash:servers \\
      --path /status --to stream:polls --to stdout

Start the same line on as many hosts as you like: every endpoint is asked by
one of them, and by another when that one stops. Targets are the sessions of
the store's own Redis: keys session:ID with JSON that has at least an id and
an address. What an endpoint answers is published with the fencing token on
the channel satisfactory_events:ID, unless --to says otherwise. Every request
names the instance and the token it was sent under. Linux only.";

pub(super) const ELECT: &str = "\
Examples:
  leasehold elect --store etcd://e1,e2,e3 --key /ccm/scheduler/leader \\
      -- ./scheduler
  leasehold elect --store sqlite:work.db --key nightly --once --no-wait \\
      -- ./nightly-report
  leasehold elect --store etcd://e1,e2,e3 --key /ccm/scheduler/leader --observe

Start the same line on as many hosts as you like: one leads, the others take
over. The command is gone before another can be elected. It is started again
when it ends; one that dies at once again and again makes its candidate leave
the seat to another. It finds LEASEHOLD_ELECTION (the key), LEASEHOLD_TOKEN,
LEASEHOLD_MEMBER and LEASEHOLD_SOCKET in its environment, and what its writes
to the store's own server can depend on: LEASEHOLD_GUARD_KEY and
LEASEHOLD_GUARD_VALUE on etcd, LEASEHOLD_GUARD_SQL on SQLite and PostgreSQL.

Where ours say nothing, ETCD_ENDPOINTS (or ETCD_HOST and ETCD_PORT),
ETCD_USERNAME, ETCD_PASSWORD, ETCD_TLS, LEADER_KEY, LEADER_LEASE_TTL (seconds),
SCHEDULER_INSTANCE_ID and HEALTH_PORT count. Linux only.

With --standby the command runs all the time. It is told that it leads, and
that it no longer does, by SIGUSR1 and SIGUSR2, by the file that
LEASEHOLD_STATE_FILE names and by a datagram to LEASEHOLD_EVENTS_SOCKET; it
confirms that it stopped leading with STANDBY=1 and TOKEN=N to NOTIFY_SOCKET,
or is killed and started again. See docs/elect.md.";

pub(super) const CHECK: &str = "\
Examples, within a child of `leasehold run` or `leasehold elect`:
  leasehold check && write-the-result
  leasehold check --json";

pub(super) const STATUS: &str = "\
Examples:
  leasehold status --store sqlite:work.db
  leasehold status --store sqlite:work.db --pool jobs --json";

pub(super) const SHOW: &str = "\
Examples:
  leasehold show --store sqlite:work.db --pool jobs a
  leasehold show --store sqlite:work.db --pool jobs api-2 --json";

pub(super) const PLAN: &str = "\
Examples:
  leasehold plan --store sqlite:work.db --pool jobs
  leasehold plan --store sqlite:work.db --pool jobs --drain api-2
  leasehold plan --store sqlite:work.db --pool jobs --join 2";

pub(super) const EXPLAIN: &str = "\
Examples:
  leasehold explain --store sqlite:work.db jobs/a
  leasehold explain --store sqlite:work.db --pool jobs a";

pub(super) const EVENTS: &str = "\
Examples:
  leasehold events --store sqlite:work.db --pool jobs --follow
  leasehold events --store sqlite:work.db --pool jobs --resource a --json";

pub(super) const VERIFY: &str = "\
Examples:
  leasehold verify --store sqlite:work.db
  leasehold verify --store sqlite:work.db --pool jobs --json
  leasehold verify one.log two.log three.log

The last line contains `overlap 0 s` if nothing ever ran twice. Exit code 0:
the ledger is clean. 1: there is no store. 2: there is nothing to judge. 3: it
shows a violation.
Log files say how long a killed member trusted itself only if heartbeats are
logged: --log-format json --log info,leasehold::ledger=debug.";

pub(super) const SERVE: &str = "\
Examples:
  leasehold serve
  leasehold serve --database postgres://leases@db.example.org/work
  leasehold serve --events amqp://broker.example.org \\
      --events mqtts://mqtt.example.org
  leasehold serve --database sqlite:work.db --store etcd://a,b,c

  curl -X PUT http://127.0.0.1:7400/api/v1/scenes/scene-01
  curl -X POST http://127.0.0.1:7400/api/v1/scenes/scene-01/lease \\
      -d '{\"holder_id\": \"tracker-0\"}'

  leasehold keys create --role admin
  leasehold serve --listen 0.0.0.0:7400 --tls-cert c.pem --tls-key k.pem

Tables are created and brought up to date by itself. Any number of replicas can
serve one PostgreSQL. The API is described at /openapi.json. Without any key
every program on this machine may do anything; see `leasehold keys --help`.";

pub(super) const FENCE: &str = "\
Examples:
  leasehold fence mqtt --store http://127.0.0.1:7400 --broker mqtt://localhost
  leasehold fence http --store http://127.0.0.1:7400 --pool reports \\
      --listen 127.0.0.1:8080 --service http://127.0.0.1:8081

See docs/fencing.md for which fence or guard suits what.";

pub(super) const FENCE_MQTT: &str = "\
Examples:
  leasehold fence mqtt --store http://127.0.0.1:7400 --broker mqtt://localhost
  leasehold fence mqtt --store https://leases.example.org --pool cameras \\
      --broker 'mqtts://broker.example.org#ca=ca.pem' \\
      --from 'plant/+/camera/+/raw' --names 2 --to 'plant/{1}/camera/{id}'

A message is a JSON object with its token as `_version`. One with a lower
token than the newest that was granted is refused; so is one whose token the
store does not know, one without a token, and one that says `scene_id` of
another resource than its topic. What passes goes on as it is. It is
acknowledged when the broker has acknowledged what it became, so nothing is
lost, and what was under way when a connection broke may come twice.
--health ADDR tells how many passed, and how many were refused and why.";

pub(super) const FENCE_HTTP: &str = "\
Examples:
  leasehold fence http --store http://127.0.0.1:7400 --pool reports \\
      --listen 127.0.0.1:8080 --service http://127.0.0.1:8081
  curl -X PUT http://127.0.0.1:8080/report -d @report.json \\
      -H 'Leasehold-Resource: nightly' -H 'Leasehold-Token: 42'

A request whose token is lower than the newest is answered 412, one without
428, and 503 while nobody can say. GET, HEAD and OPTIONS need none unless
--guard-reads is given.";

pub(super) const FENCE_GUARD: &str = "\
Examples:
  leasehold fence guard postgres | psql postgres://app@db.example.org/work
  leasehold fence guard redis > fence.lua

Both say at their top how they are used.";

pub(super) const KEYS: &str = "\
Examples:
  leasehold keys create --role admin --name me
  leasehold keys create --role member --pool scenes --name trackers --expires 30d
  leasehold keys create --role member --tenant acme
  leasehold keys list
  leasehold keys rotate 5a0e6fd98c31 --grace 1h
  leasehold keys revoke 5a0e6fd98c31

They are kept in the database that `leasehold serve` uses, which need not run.
A key is printed once, when it is made or rotated; only its hash is kept.
Clients send it as Authorization: Bearer KEY.";

pub(super) const DEPLOY: &str = "\
Examples:
  leasehold deploy start v2 --tenant acme --group production
  leasehold deploy status --tenant acme --group production
  leasehold deploy promote --tenant acme --group production
  leasehold deploy abort --tenant acme --group production

The new version's runners register and get nothing yet; promoted, they take
over camera by camera. If one of them fails before all is done, everything goes
back. It works on the database that `leasehold serve` uses.";

pub(super) const MIGRATE: &str = "\
Examples:
  leasehold migrate --fresh --store postgres://jobs@db.example.org/work
  leasehold migrate --store redis://localhost

PostgreSQL needs it before its first use and after an upgrade. Redis and etcd
begin by themselves, frozen for a minute: whoever held something in an earlier
store can say so. --fresh leaves that out. SQLite needs none of it. What is
there is kept, and several may run it at once. A Leasehold server (https://)
prepares its store itself.";

pub(super) const DOCTOR: &str = "\
Examples:
  leasehold doctor --store postgres://jobs@db.example.org/work
  leasehold doctor --store redis://localhost --json
  leasehold doctor --store etcd://a,b,c \\
      --require-grade durable-and-linearizable";

pub(super) const BENCH: &str = "\
Examples:
  leasehold bench --store sqlite:work.db
  leasehold bench --store redis://localhost --only handoff,failover --turns 100
  leasehold bench --store etcd://a,b,c/bench --only heartbeat --leases 100000
  leasehold bench --store postgres://jobs@db.example.org/work --only keep \\
      --leases 1000000 --members 100 --ttl 30s --json

Cases: acquire (one a call), batch (many a call), contended, heartbeat (with 1,
1000, ... leases), release, handoff, failover, fan-out, cold-start, keep.

It takes less than a minute unless more is asked for, and loads the store as
much as it can while it does. All happens in pools called bench-..., whose
sessions are removed at the end. Free resources stay with their last tokens,
and rows of the ledger: docs/performance.md says how to remove them.";

pub(super) const DRAIN: &str = "\
Examples:
  leasehold drain --store sqlite:work.db --pool jobs api-2
  leasehold drain --store sqlite:work.db --pool jobs api-2 --plan
  leasehold undrain --store sqlite:work.db --pool jobs api-2

On a terminal it shows what would move and asks; --yes does not ask, --plan only
shows. The same holds of all that operators do.";

pub(super) const UNDRAIN: &str = "\
Examples:
  leasehold undrain --store sqlite:work.db --pool jobs api-2";

pub(super) const UNCORDON: &str = "\
Examples:
  leasehold uncordon --store sqlite:work.db --pool jobs api-2";

pub(super) const UNPIN: &str = "\
Examples:
  leasehold unpin --store sqlite:work.db --pool jobs a";

pub(super) const RESUME: &str = "\
Examples:
  leasehold resume --store sqlite:work.db --pool jobs a";

pub(super) const REVOKE: &str = "\
Examples:
  leasehold revoke --store sqlite:work.db --pool jobs a

The holder stops its work and lets go. Whoever the plan names takes the resource
next, perhaps the same member: drain it, pin or pause the resource to keep it away.";

pub(super) const RESIGN: &str = "\
Examples:
  leasehold resign --store etcd://a,b,c --pool .ccm.scheduler.leader

The pool is that of the election's key: a dot for each slash. The leader is
drained until somebody else leads, and is a candidate again then. Where nobody
else could lead, nothing is done.";

pub(super) const TOP_VIEW: &str = "\
Examples:
  leasehold top --store sqlite:work.db
  leasehold top --store postgres://jobs@db.example.org/work --pool jobs

Keys: arrows or j and k move, tab goes from members to resources, s sorts,
/ filters, enter opens, esc goes back, p goes to the next pool, q ends.
d drains or undrains, c cordons, P pauses, v revokes; what would move is shown
first, and y does it.";

pub(super) const CORDON: &str = "\
Examples:
  leasehold cordon --store sqlite:work.db --pool jobs api-2
  leasehold cordon --store sqlite:work.db --pool jobs api-2 --undo";

pub(super) const PIN: &str = "\
Examples:
  leasehold pin --store sqlite:work.db --pool jobs a api-2
  leasehold pin --store sqlite:work.db --pool jobs a --undo";

pub(super) const PAUSE: &str = "\
Examples:
  leasehold pause --store sqlite:work.db --pool jobs a
  leasehold pause --store sqlite:work.db --pool jobs a --undo";

pub(super) const COMPLETIONS: &str = "\
Examples:
  source <(leasehold completions bash)
  leasehold completions fish > ~/.config/fish/completions/leasehold.fish";

pub(super) const MAN: &str = "\
Examples:
  leasehold man ~/.local/share/man/man1 && man leasehold-run";
