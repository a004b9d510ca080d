// SPDX-License-Identifier: GPL-2.0
/*
 * labnic: network devices for tests. They carry packets and keep the settings that a NIC with DCB has, and nothing else; so
 * netlink, ethtool and debugfs are the kernel's own code down to the driver, and a test sees what a real NIC would be told.
 *
 * Devices nic0, nic1, ... are joined in pairs, 0 with 1 and 2 with 3. They behave as mlx5_core's where that matters to who sets
 * them (drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c), or, with firmware=1, as a device whose firmware owns DCB for good.
 * In debugfs, labnic/nicN has their counters, which a test may set, what else a test orders, and when
 * settings were changed (`first`, `last`).
 *
 * GPL-2.0, unlike the rest of this project: the kernel gives the symbols used here to such modules only. No part of the product.
 */
#include <linux/debugfs.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/ip.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/rtnetlink.h>
#include <net/dcbnl.h>

#define MOST 16
static int pairs = 2;
module_param(pairs, int, 0444);
static char *driver = "mlx5_core";
module_param(driver, charp, 0444);
static bool firmware;
module_param(firmware, bool, 0444);

/* Counters with mlx5's names: one of each kind for each priority, then some of the port. */
static const char *const kinds[] = { "tx_prio%d_bytes", "rx_prio%d_bytes", "tx_prio%d_pause", "rx_prio%d_pause",
	"tx_prio%d_pause_duration", "rx_prio%d_pause_duration", "rx_prio%d_marked" };
static const char *const port[] = { "link_down_events_phy", "rx_discards_phy", "rx_symbol_err_phy" };
enum { TX_BYTES = 0, RX_BYTES = 8, TX_PAUSE = 16, RX_PAUSE = 24, RX_PAUSED = 40, RX_MARKED = 48, LINK_DOWN = 56, COUNTERS = 59 };

struct labnic {
	struct net_device *dev;
	struct labnic __rcu *peer;
	int number;
	struct ieee_ets ets;
	struct ieee_pfc pfc;
	struct ieee_maxrate rate;
	struct dcbnl_buffer buffer;
	struct ethtool_pauseparam pause;
	u8 dcbx;
	u32 pull;	/* after so many changes by DCB the device is pulled out */
	u64 first, last;	/* nanoseconds: when a setting was changed first since a test wrote 0 there, and when last */
	u32 storm;	/* the peer pauses these priorities without end */
	u32 told, shown;	/* how many counters a test wants told of, the first ones, and how many the kernel was told last */
	ktime_t read;	/* when counters were last */
	u64 count[COUNTERS];
	struct dentry *files;
};
static struct labnic *nics[MOST];	/* under RTNL, as all settings are */
static bool pulled[MOST];
static struct dentry *root;
/* What the devices hang on in sysfs, so that their driver is seen there as a real one's is. */
static struct platform_device *parents[MOST];
static struct platform_driver bus;

static struct labnic *nic_of(struct net_device *dev) { return netdev_priv(dev); }

static void remove_nic(struct labnic *nic)
{
	struct labnic *peer = rtnl_dereference(nic->peer);

	if (peer)
		RCU_INIT_POINTER(peer->peer, NULL);
	nics[nic->number] = NULL;
	debugfs_remove_recursive(nic->files);
	unregister_netdevice(nic->dev);
}

/* Runs once the change by which a device was counted out has been answered, and RTNL is free. */
static void pull_out(struct work_struct *work)
{
	int i;

	rtnl_lock();
	for (i = 0; i < MOST; i++)
		if (pulled[i] && nics[i])
			remove_nic(nics[i]);
	rtnl_unlock();
}
static DECLARE_WORK(pull_work, pull_out);

/* When settings are changed, by a clock that no process has to be started for. */
static void stamp(struct labnic *nic)
{
	nic->last = ktime_get_ns();
	nic->first = nic->first ?: nic->last;
}

/* The end of every change by DCB: 0, or why it is refused. */
static int change(struct net_device *dev)
{
	struct labnic *nic = nic_of(dev);

	if (firmware)
		return -EBUSY;
	stamp(nic);
	if (nic->pull && !--nic->pull) {
		pulled[nic->number] = true;
		schedule_work(&pull_work);
	}
	return 0;
}

static int get_ets(struct net_device *dev, struct ieee_ets *ets) { *ets = nic_of(dev)->ets; return 0; }
static int set_ets(struct net_device *dev, struct ieee_ets *ets)
{
	int tc, sum = 0, shares = 0;

	for (tc = 0; tc < 8; tc++) {
		if (ets->prio_tc[tc] >= 8)
			return -EINVAL;
		if (ets->tc_tsa[tc] == IEEE_8021QAZ_TSA_ETS) {
			shares = 100;
			sum += ets->tc_tx_bw[tc];
		}
	}
	if (sum != shares)
		return -EINVAL;
	nic_of(dev)->ets = *ets;
	nic_of(dev)->ets.ets_cap = 8;
	/* As in mlx5, a class that has no share is given all of the bandwidth, and reports that. */
	for (tc = 0; tc < 8; tc++)
		if (ets->tc_tsa[tc] != IEEE_8021QAZ_TSA_ETS)
			nic_of(dev)->ets.tc_tx_bw[tc] = 100;
	return change(dev);
}

static int get_pfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct labnic *nic = nic_of(dev);

	*pfc = nic->pfc;
	memcpy(pfc->requests, nic->count + TX_PAUSE, sizeof(pfc->requests));
	memcpy(pfc->indications, nic->count + RX_PAUSE, sizeof(pfc->indications));
	return 0;
}

/* As in mlx5, another mask toggles the link, and the delay is the length of the cable in metres. */
static int set_pfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct labnic *nic = nic_of(dev);

	if (pfc->pfc_en != nic->pfc.pfc_en) {
		netif_carrier_off(dev);
		netif_carrier_on(dev);
		nic->count[LINK_DOWN]++;
	}
	nic->pfc.pfc_en = pfc->pfc_en;
	nic->pfc.delay = pfc->delay;
	return change(dev);
}

/* As in mlx5, rates are kept in steps of 100 Mbit/s, of 1 Gbit/s beyond 25.5 Gbit/s, and are at least one step. */
static int get_rate(struct net_device *dev, struct ieee_maxrate *rate) { *rate = nic_of(dev)->rate; return 0; }
static int set_rate(struct net_device *dev, struct ieee_maxrate *rate)
{
	int tc;

	for (tc = 0; tc < 8; tc++) {
		u64 kbit = rate->tc_maxrate[tc], step = kbit <= 25500000 ? 100000 : 1000000;

		nic_of(dev)->rate.tc_maxrate[tc] = kbit ? max_t(u64, div64_u64(kbit, step), 1) * step : 0;
	}
	return change(dev);
}

static int get_buffer(struct net_device *dev, struct dcbnl_buffer *buffer) { *buffer = nic_of(dev)->buffer; return 0; }
static int set_buffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	u32 total = nic_of(dev)->buffer.total_size;

	nic_of(dev)->buffer = *buffer;
	nic_of(dev)->buffer.total_size = total;
	return change(dev);
}

/* As in mlx5: DSCP entries only, and a new one replaces the one that its DSCP had. */
static int set_app(struct net_device *dev, struct dcb_app *app)
{
	struct dcb_app old = *app;
	u8 mask = dcb_ieee_getapp_mask(dev, app);
	int err;

	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP || app->protocol >= 64)
		return -EOPNOTSUPP;
	err = dcb_ieee_setapp(dev, app);
	for (old.priority = 0; !err && old.priority < 8; old.priority++)
		if (old.priority != app->priority && mask & BIT(old.priority))
			dcb_ieee_delapp(dev, &old);
	return err ?: change(dev);
}

static int del_app(struct net_device *dev, struct dcb_app *app) { return dcb_ieee_delapp(dev, app) ?: change(dev); }

/* As in mlx5, 0 hands DCBX to the firmware. A failure is 1. */
static u8 get_dcbx(struct net_device *dev) { return nic_of(dev)->dcbx; }
static u8 set_dcbx(struct net_device *dev, u8 mode)
{
	if (firmware || mode & DCB_CAP_DCBX_LLD_MANAGED || (mode && !(mode & DCB_CAP_DCBX_HOST)))
		return 1;
	nic_of(dev)->dcbx = mode ?: nic_of(dev)->dcbx & ~DCB_CAP_DCBX_HOST;
	return change(dev) != 0;
}

static const struct dcbnl_rtnl_ops dcb_ops = {
	.ieee_getets = get_ets, .ieee_setets = set_ets, .ieee_getpfc = get_pfc, .ieee_setpfc = set_pfc,
	.ieee_getmaxrate = get_rate, .ieee_setmaxrate = set_rate, .ieee_setapp = set_app, .ieee_delapp = del_app,
	.getdcbx = get_dcbx, .setdcbx = set_dcbx, .dcbnl_getbuffer = get_buffer, .dcbnl_setbuffer = set_buffer,
};

static void get_driver(struct net_device *dev, struct ethtool_drvinfo *info)
{
	strscpy(info->driver, driver, sizeof(info->driver));
	strscpy(info->fw_version, "28.39.2048", sizeof(info->fw_version));
	snprintf(info->bus_info, sizeof(info->bus_info), "0000:%02x:00.0", 0x18 + nic_of(dev)->number);
}

static int get_speed(struct net_device *dev, struct ethtool_link_ksettings *link)
{
	link->base.speed = SPEED_100000;
	return 0;
}

static void get_pause(struct net_device *dev, struct ethtool_pauseparam *pause) { *pause = nic_of(dev)->pause; }
static int set_pause(struct net_device *dev, struct ethtool_pauseparam *pause)
{
	if (pause->autoneg)
		return -EINVAL;
	nic_of(dev)->pause = *pause;
	stamp(nic_of(dev));
	return 0;
}

static void name_of(char *name, int i)
{
	snprintf(name, ETH_GSTRING_LEN, i < LINK_DOWN ? kinds[i / 8] : port[i - LINK_DOWN], i % 8);
}

/* A driver has more or fewer counters from one question to the next, when its channels change for example. The kernel asks how many
 * there are before it makes room for them, both under RTNL. */
static int count_names(struct net_device *dev, int set)
{
	struct labnic *nic = nic_of(dev);

	nic->shown = min_t(u32, nic->told, COUNTERS);
	return set == ETH_SS_STATS ? nic->shown : -EOPNOTSUPP;
}

static void get_names(struct net_device *dev, u32 set, u8 *names)
{
	int i;

	for (i = 0; set == ETH_SS_STATS && i < nic_of(dev)->shown; i++)
		name_of(names + i * ETH_GSTRING_LEN, i);
}

static void get_counters(struct net_device *dev, struct ethtool_stats *stats, u64 *values)
{
	struct labnic *nic = nic_of(dev);
	ktime_t now = ktime_get();
	int i;

	for (i = 0; i < 8; i++)
		if (nic->storm & BIT(i))
			nic->count[RX_PAUSED + i] += ktime_us_delta(now, nic->read);
	nic->read = now;
	memcpy(values, nic->count, stats->n_stats * sizeof(*values));
}

static const struct ethtool_ops ethtool_ops = {
	.get_drvinfo = get_driver, .get_link = ethtool_op_get_link, .get_link_ksettings = get_speed,
	.get_pauseparam = get_pause, .set_pauseparam = set_pause,
	.get_sset_count = count_names, .get_strings = get_names, .get_ethtool_stats = get_counters,
};

/* The priority that a device gives a packet: by its DSCP and the device's table, 0 where that has no entry. */
static int priority_of(struct net_device *dev, u8 tos)
{
	struct dcb_app app = { .selector = IEEE_8021QAZ_APP_SEL_DSCP, .protocol = tos >> 2 };
	u8 mask = dcb_ieee_getapp_mask(dev, &app);

	return mask ? fls(mask) - 1 : 0;
}

static netdev_tx_t send(struct sk_buff *skb, struct net_device *dev)
{
	u8 tos = skb->protocol == htons(ETH_P_IP) ? ip_hdr(skb)->tos : 0;
	unsigned int bytes = skb->len;
	struct labnic *peer;

	rcu_read_lock();
	peer = rcu_dereference(nic_of(dev)->peer);
	if (!peer || !netif_carrier_ok(peer->dev)) {
		kfree_skb(skb);
	} else {
		nic_of(dev)->count[TX_BYTES + priority_of(dev, tos)] += bytes;
		peer->count[RX_BYTES + priority_of(peer->dev, tos)] += bytes;
		peer->count[RX_MARKED + priority_of(peer->dev, tos)] += (tos & 3) == 3;
		dev_forward_skb(peer->dev, skb);
	}
	rcu_read_unlock();
	return NETDEV_TX_OK;
}

static const struct net_device_ops device_ops = { .ndo_start_xmit = send, .ndo_set_mac_address = eth_mac_addr };

static void set_up(struct net_device *dev)
{
	ether_setup(dev);
	dev->max_mtu = 9978;
	dev->netdev_ops = &device_ops;
	dev->ethtool_ops = &ethtool_ops;
	dev->dcbnl_ops = &dcb_ops;
	dev->needs_free_netdev = true;
	/* As every kernel allows from 6.2 on: renamed while it is up. */
	dev->priv_flags |= IFF_LIVE_RENAME_OK;
}

/* What mlx5 has before anybody sets it, and the files. */
static void furnish(struct labnic *nic)
{
	char name[ETH_GSTRING_LEN];
	int i;

	for (i = 0; i < 8; i++) {
		nic->ets.prio_tc[i] = i < 2 ? 1 - i : i;
		nic->ets.tc_tx_bw[i] = 100;
		nic->ets.tc_tsa[i] = IEEE_8021QAZ_TSA_VENDOR;
	}
	nic->buffer.total_size = nic->buffer.buffer_size[0] = 262144;
	nic->ets.ets_cap = nic->pfc.pfc_cap = 8;
	nic->pfc.delay = 7;
	nic->pause.rx_pause = nic->pause.tx_pause = 1;
	nic->dcbx = DCB_CAP_DCBX_VER_IEEE | (firmware ? DCB_CAP_DCBX_LLD_MANAGED : DCB_CAP_DCBX_VER_CEE);
	nic->told = COUNTERS;
	nic->read = ktime_get();
	nic->files = debugfs_create_dir(nic->dev->name, root);
	debugfs_create_u32("storm", 0600, nic->files, &nic->storm);
	debugfs_create_u32("told", 0600, nic->files, &nic->told);
	debugfs_create_u32("pull", 0600, nic->files, &nic->pull);
	debugfs_create_u64("first", 0600, nic->files, &nic->first);
	debugfs_create_u64("last", 0600, nic->files, &nic->last);
	for (i = 0; i < COUNTERS; i++) {
		name_of(name, i);
		debugfs_create_u64(name, 0600, nic->files, &nic->count[i]);
	}
}

static int make_nic(int number)
{
	struct net_device *dev = alloc_netdev(sizeof(struct labnic), "nic%d", NET_NAME_ENUM, set_up);
	/* The same when the module is loaded anew, as a real one's are. */
	u8 address[ETH_ALEN] = { 2, 'l', 'a', 'b', 0, number };
	int err;

	if (!dev)
		return -ENOMEM;
	nic_of(dev)->dev = dev;
	nic_of(dev)->number = number;
	eth_hw_addr_set(dev, address);
	SET_NETDEV_DEV(dev, &parents[number]->dev);
	err = register_netdevice(dev);
	if (err) {
		free_netdev(dev);
		return err;
	}
	furnish(nic_of(dev));
	nics[number] = nic_of(dev);
	if (number % 2) {
		rcu_assign_pointer(nics[number]->peer, nics[number - 1]);
		rcu_assign_pointer(nics[number - 1]->peer, nics[number]);
	}
	return 0;
}

static void end(void)
{
	int i;

	rtnl_lock();
	for (i = 0; i < MOST; i++)
		if (nics[i])
			remove_nic(nics[i]);
	rtnl_unlock();
	/* Nobody is left who could begin it again. */
	flush_work(&pull_work);
	debugfs_remove_recursive(root);
	for (i = 0; i < MOST; i++)
		platform_device_unregister(parents[i]);
	platform_driver_unregister(&bus);
}

static int __init begin(void)
{
	int i, err, many = min(2 * pairs, MOST);

	bus.driver.name = driver;
	err = platform_driver_register(&bus);
	if (err)
		return err;
	root = debugfs_create_dir("labnic", NULL);
	for (i = 0; !err && i < many; i++) {
		struct platform_device *parent = platform_device_register_simple(driver, i, NULL, 0);

		err = PTR_ERR_OR_ZERO(parent);
		parents[i] = err ? NULL : parent;
	}
	rtnl_lock();
	for (i = 0; !err && i < many; i++)
		err = make_nic(i);
	rtnl_unlock();
	if (err)
		end();
	return err;
}
module_init(begin);
module_exit(end);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Network devices that keep what DCB sets, for tests");
