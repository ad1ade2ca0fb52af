#!/bin/sh
# Runs the demonstration over a Mosquitto of its own: deploy/mqtt/demo.sh VENV
set -eu

venv=$1
folder=build/mqtt-demo-broker
port=$("$venv/bin/python" -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
mosquitto=$(PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v mosquitto) || {
    echo "mosquitto is missing: apt-get install --no-install-recommends mosquitto" >&2
    exit 1
}

rm -rf "$folder"
mkdir -p "$folder"
cat >"$folder/mosquitto.conf" <<END
listener $port 127.0.0.1
allow_anonymous true
user $(id -un)
persistence true
persistence_location $PWD/$folder/
max_queued_messages 0
max_inflight_messages 100
log_dest file $PWD/$folder/mosquitto.log
END
printf 'Starting a Mosquitto on this machine (its log: %s/mosquitto.log) ...\n' "$folder"
"$mosquitto" -c "$folder/mosquitto.conf" >"$folder/mosquitto.out" 2>&1 &
broker=$!
trap 'kill "$broker" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
until "$venv/bin/python" -c "import socket; socket.create_connection(('127.0.0.1', $port), 1)" 2>/dev/null; do
    kill -0 "$broker" 2>/dev/null || {
        echo "Mosquitto has ended:" >&2
        cat "$folder/mosquitto.out" "$folder/mosquitto.log" >&2
        exit 1
    }
    sleep 0.2
done
"$venv/bin/perpetua" demo --mqtt "127.0.0.1:$port" --folder build/mqtt-demo
