# Run as root on a copy of the machine that has the package as /package.deb; PORT is free. Each step fails the whole.
step() { echo "--- $*"; }
refuse() { if "$@" 2>/dev/null; then echo "should have been refused: $*"; exit 1; fi; }
as() { local user=$1; shift; setpriv --reuid "$user" --regid "$user" --clear-groups -- "$@"; }
# What a unit starts, without what only systemd does.
started_by() { sed -n 's/^ExecStart=//p' "/lib/systemd/system/$1"; }

step "it is installed"
dpkg -i /package.deb
dpkg --verify leasehold
leasehold --version
mapfile -t files < <(dpkg -L leasehold)

step "the binary needs no newer libraries than the package says"
newest=$(grep -aoE 'GLIBC_[0-9]+\.[0-9]+' /usr/bin/leasehold | sort -Vu | tail -1)
dpkg --compare-versions "${newest#GLIBC_}" le "$(dpkg-query -Wf '${Depends}' leasehold | grep -oP 'libc6 \(>= \K[0-9.]+')"

step "nobody can log in, and nobody reads what is not theirs"
for user in leasehold leasehold-manager; do
  [ "$(getent passwd "$user" | cut -d: -f7)" = /usr/sbin/nologin ]
done
[ "$(stat -c '%a %U %G' /etc/leasehold/serve.toml)" = "640 root leasehold" ]
[ "$(stat -c '%a %U %G' /etc/leasehold/manager.toml)" = "640 root leasehold-manager" ]
[ "$(stat -c '%a %U %G' /etc/leasehold/manager.d)" = "750 root leasehold-manager" ]
as leasehold-manager test -r /etc/leasehold/manager.toml
refuse as leasehold-manager test -r /etc/leasehold/serve.toml
refuse as leasehold test -r /etc/leasehold/manager.toml
refuse as nobody test -r /etc/leasehold/serve.toml

step "systemd understands the units"
if command -v systemd-analyze >/dev/null; then
  said=$(systemd-analyze verify --man=no /lib/systemd/system/leasehold-serve.service /lib/systemd/system/leasehold-manager.service 2>&1)
  [ -z "$said" ] || { echo "$said"; exit 1; }
else
  echo "SKIPPED: there is no systemd-analyze"
fi

step "the control plane runs as its unit says, as its user, on the file that was installed"
sed -i "s/127.0.0.1:7400/127.0.0.1:$PORT/" /etc/leasehold/serve.toml
# What StateDirectory= does.
install -d -m 700 -o leasehold -g leasehold /var/lib/leasehold
# Not by a function: it is this process that is told to stop.
setpriv --reuid leasehold --regid leasehold --clear-groups -- $(started_by leasehold-serve.service) 2>/var/tmp/serve.log &
server=$!
for _ in $(seq 600); do
  code=$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$PORT/readyz" || true)
  [ "$code" != 200 ] || break
  kill -0 "$server" || { cat /var/tmp/serve.log; exit 1; }
  sleep 0.1
done
[ "$code" = 200 ]
kill -TERM "$server"
wait "$server"
[ -s /var/lib/leasehold/leases.db ]

step "a key for the manager is made and kept as the document says"
as leasehold leasehold keys create --role member --name runners --config /etc/leasehold/serve.toml |
  install -m 640 -g leasehold-manager /dev/stdin /etc/leasehold/manager.d/api-key
as leasehold-manager grep -q '^lh_' /etc/leasehold/manager.d/api-key
refuse as nobody test -r /etc/leasehold/manager.d/api-key

step "the worker of the examples starts where the manager's file says it is"
if command -v python3 >/dev/null; then
  worker=$(sed -n 's/^worker_command = \[\(.*\)\]$/\1/p' /etc/leasehold/manager.toml | tr -d '",')
  as leasehold-manager $worker --help | grep -q -- --manager-pid
  as leasehold-manager env PYTHONPATH=/usr/lib/leasehold python3 -m camera_consumer --help | grep -q -- --database
fi

step "the manager understands the file that was installed"
install -d -m 700 -o leasehold-manager -g leasehold-manager /var/lib/leasehold-manager
HOSTNAME=copy as leasehold-manager $(started_by leasehold-manager.service) --check

step "an upgrade leaves what was changed"
dpkg -i /package.deb
grep -q "127.0.0.1:$PORT" /etc/leasehold/serve.toml
[ "$(stat -c '%a %U %G' /etc/leasehold/serve.toml)" = "640 root leasehold" ]

step "it is removed; configuration and database stay"
dpkg -r leasehold
[ ! -e /usr/bin/leasehold ]
[ -f /etc/leasehold/serve.toml ] && [ -s /var/lib/leasehold/leases.db ]

step "it is purged; the database stays"
install -d /var/lib/leasehold-manager
dpkg -P leasehold
for file in "${files[@]}"; do
  # Directories that others have as well stay.
  [ -d "$file" ] || [ ! -e "$file" ] || { echo "$file is left"; exit 1; }
done
[ ! -e /etc/leasehold ] && [ ! -e /var/lib/leasehold-manager ] && [ ! -e /usr/lib/leasehold ] && [ -s /var/lib/leasehold/leases.db ]
echo "all is well"
