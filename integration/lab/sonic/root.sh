#!/bin/sh
# Makes SONiC's configuration code usable in a Debian 13 root; runs inside it, once, with the sources in /src:
# sonic-swss-common, sonic-utilities, sonic-buildimage/src/{sonic-yang-models,sonic-yang-mgmt,sonic-config-engine,sonic-py-common}, libyang-*.tar.gz
# (the Python binding). Nothing of SONiC is changed: what does not build as it is gets other flags.
set -eu
export DEBIAN_FRONTEND=noninteractive MAKEFLAGS="-j$(nproc)"

echo "packages"
apt-get update -qq
apt-get install -y -qq --no-install-recommends \
    python3-dev python3-pip python3-setuptools python3-wheel python3-cffi python3-jsonpatch python3-json-pointer python3-jsondiff \
    python3-xmltodict python3-ijson python3-natsort python3-netaddr python3-bitarray python3-tabulate python3-redis python3-jinja2 python3-lxml \
    python3-yaml python3-dbus python3-psutil libyang-dev redis-server g++ make swig autoconf autoconf-archive automake libtool pkgconf libhiredis-dev \
    libnl-3-dev libnl-genl-3-dev libnl-route-3-dev libnl-nf-3-dev libboost-dev libboost-serialization-dev uuid-dev libzmq3-dev nlohmann-json3-dev >/dev/null

echo "models"
models=/usr/local/yang-models
mkdir -p $models
cp /src/sonic-buildimage/src/sonic-yang-models/yang-models/*.yang $models/
python3 - $models <<END
import pathlib, sys, jinja2
for template in pathlib.Path("/src/sonic-buildimage/src/sonic-yang-models/yang-templates").glob("*.j2"):
    text = jinja2.Template(template.read_text()).render(yang_model_type="py")
    pathlib.Path(sys.argv[1], template.stem).write_text(text)
END

echo "the Python binding of libyang"
pip install --quiet --root-user-action=ignore --break-system-packages --no-build-isolation --no-deps --no-index /src/libyang-*.tar.gz

echo "SONiC's Python"
site=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
mkdir -p "$site"
cp /src/sonic-buildimage/src/sonic-yang-mgmt/sonic_*.py "$site/"
find /src/sonic-buildimage/src/sonic-config-engine -maxdepth 1 -name "*.py" ! -name setup.py ! -name __init__.py -exec cp {} "$site/" \;
cp -r /src/sonic-buildimage/src/sonic-py-common/sonic_py_common /src/sonic-utilities/generic_config_updater "$site/"
install -m 755 /src/sonic-buildimage/src/sonic-config-engine/sonic-cfggen /usr/local/bin/

# The updater calls sonic-cfggen by this name.
ln -sf python3 /usr/bin/python

echo "swss-common"
cd /src/sonic-swss-common
./autogen.sh >/dev/null 2>&1
./configure --disable-yangmodules --disable-python2 PYTHON=python3 >/dev/null
python3 gen_cfg_schema.py -o common/cfg_schema.h
make -s -o common/cfg_schema.h CFLAGS_COMMON="-fPIC -std=c++17 -w" common/libswsscommon.la pyext/py3/_swsscommon.la >/dev/null
mkdir -p "$site/swsscommon"
cp pyext/py3/__init__.py pyext/py3/swsscommon.py "$site/swsscommon/"
cp pyext/py3/.libs/_swsscommon.so "$site/swsscommon/"
cp -a common/.libs/libswsscommon.so* /usr/local/lib/
ldconfig

mkdir -p /etc/sonic /usr/share/sonic/templates /usr/local/share/sonic
cp /src/sonic-swss-common/common/database_config.json /usr/local/share/sonic/
printf 'build_version: master.1\nasic_type: mellanox\n' >/etc/sonic/sonic_version.yml
printf 'PLATFORM=x86_64-nvidia_sn5600-r0\nHWSKU=ACS-SN5600\n' >/etc/sonic/machine.conf
cat >/etc/redis/sonic.conf <<END
port 6379
bind 127.0.0.1
unixsocket /var/run/redis/redis.sock
databases 100
notify-keyspace-events AKE
save ""
daemonize yes
END
python3 -c 'import sonic_yang, swsscommon.swsscommon, generic_config_updater.generic_updater'
echo "made" >/etc/sonic/made
