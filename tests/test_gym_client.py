"""Agents of another library train on the registered worlds.

Skipped unless that library is installed. It brings PyTorch, so no extra of this project
has it:

    pip install -e '.[rl]' stable-baselines3 sb3-contrib
    python -m pytest tests/test_gym_client.py
"""

import gymnasium
import pytest

from tinyrmc.environments import IDS

pytest.importorskip("stable_baselines3")
contrib = pytest.importorskip("sb3_contrib")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # what others' libraries warn of
]
SMALL = dict(room=6, solution_length=1, distractors=0, limit=20, levels=200)
# policy, for PPO and for RecurrentPPO -> what it sees
POLICIES = {
    ("MlpPolicy", "MlpLstmPolicy"): dict(observation="pixels"),
    ("CnnPolicy", "CnnLstmPolicy"): dict(observation="pixels", scale=8),
    ("MultiInputPolicy", "MultiInputLstmPolicy"): dict(observation="codes"),
}


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize("policies", POLICIES)
def test_ppo_learns_from_every_world_and_kind_of_observation(id, policies):
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_checker import check_env
    from stable_baselines3.common.env_util import make_vec_env

    arguments = POLICIES[policies] | (SMALL if "BoxWorld" in id else {})
    check_env(gymnasium.make(id, **arguments).unwrapped)
    for kind, policy in zip((PPO, contrib.RecurrentPPO), policies, strict=True):
        for count in 1, 4:
            envs = make_vec_env(id, n_envs=count, seed=0, env_kwargs=arguments)
            agent = kind(policy, envs, n_steps=32, batch_size=32, seed=0, device="cpu")
            before = [x.detach().clone() for x in agent.policy.parameters()]
            agent.learn(64)
            after = [x.detach() for x in agent.policy.parameters()]
            assert agent.num_timesteps >= 64
            assert all(bool(x.isfinite().all()) for x in after)
            assert any(bool((x != y).any()) for x, y in zip(before, after, strict=True))
