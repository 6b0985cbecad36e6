#!/bin/sh
# postgres.sh URL RESOURCE TOKEN: writes each line of its input to a table that has the trigger, and says whether it was let.
# Before: leasehold fence guard postgres | psql URL, and a table of your own:
#   CREATE TABLE scenes (scene_id text PRIMARY KEY, state text, version bigint);
#   CREATE TRIGGER fence BEFORE INSERT OR UPDATE OR DELETE ON scenes
#       FOR EACH ROW EXECUTE FUNCTION leasehold_fence.guard('scene_id', 'version');
url=$1 resource=$2 token=$3
while read -r line; do
  if said=$(psql -X -q -v ON_ERROR_STOP=1 -v VERBOSITY=verbose -v id="$resource" -v state="$line" -v token="$token" "$url" 2>&1 <<'SQL'
INSERT INTO scenes VALUES (:'id', :'state', :'token')
    ON CONFLICT (scene_id) DO UPDATE SET state = EXCLUDED.state, version = EXCLUDED.version;
SQL
  ); then echo "written $line"; else echo "refused $line: $said" | head -1; fi
done
